package random

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
)

// Check trains the case with its strategy and on one device, and compares.
func (c Case) Check() error {
	want, err := train(c.Shape.build, c.alone(), c.Batches, nil)
	if Diverged(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: one device: %w", c, err)
	}
	got, err := train(c.Shape.build, &c.Strategy, c.Batches, c.Annotations)
	if err != nil {
		return fmt.Errorf("%s: %v", c, err)
	}
	if err := got.Compare(want, c.limit()); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// alone returns the strategy for one device. 16-bit runs are compared with 16-bit ones, and batches
// normalized in parts likewise.
func (c Case) alone() *galley.Strategy {
	switch {
	case c.Shape.Norm && c.Strategy.Micro > 1:
		return &galley.Strategy{Micro: c.Strategy.Micro}
	case c.Strategy.AMP == "":
		return nil
	}
	return &galley.Strategy{AMP: c.Strategy.AMP}
}

// limit returns the most that results may differ: sums are in another order.
func (c Case) limit() float64 {
	switch {
	case c.Strategy.AMP != "":
		return 0.1
	case c.Shape.DType == array.F32:
		return 1e-3
	}
	return 1e-9
}

// Diverged reports whether an error of Check is that training on one device gave infinities or NaN: then
// there is nothing to compare.
func Diverged(err error) bool {
	_, ok := errors.AsType[*galley.DivergedError](err)
	return ok
}
