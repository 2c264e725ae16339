package galley

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/optim"
)

// Averaged is the moving averages of the parameters, in the order of Params, that an optim.Averaged optimizer
// keeps. A parameter that training leaves alone, or a buffer, is its own average.
func (t *Trainer) Averaged() ([]array.Array, error) {
	o, ok := t.c.Optimizer.(optim.Averaged)
	if !ok {
		return nil, fmt.Errorf("trainer: optimizer %T keeps no averages: want optim.Averaged around it",
			t.c.Optimizer)
	}
	taken := t.step - t.skipped
	if taken == 0 {
		return nil, fmt.Errorf("trainer: there are no averages before the first step")
	}
	read, err := t.exec.Reader()
	if err != nil {
		return nil, err
	}
	averages := make([]array.Array, len(t.c.Params))
	for i, p := range t.c.Params {
		at := executor.Tensor{Param: i, Slot: o.Slots() - 1}
		own := p.Fixed || p.Buffer
		if own {
			at.Slot = -1
		}
		if averages[i], err = read(at); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		if !own {
			averages[i] = divided(averages[i], o.Correction(taken))
		}
	}
	return averages, nil
}

// divided is a copy of a with every element divided by a number.
func divided(a array.Array, by float64) array.Array {
	out := array.New(a.DType(), a.Shape()...)
	for i := range a.Len() {
		out.Set(i, a.At(i)/by)
	}
	return out
}
