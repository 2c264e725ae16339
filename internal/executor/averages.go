package executor

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/optim"
)

// Averages returns the moving averages that an optim.Averaged optimizer has kept over a number of updates.
// For frozen parameters and buffers it is the value itself.
func (c Config) Averages(e Executor, updates int) ([]array.Array, error) {
	o, ok := c.Optimizer.(optim.Averaged)
	if !ok {
		return nil, fmt.Errorf(
			"trainer: optimizer %T keeps no averages: want optim.Averaged around it",
			c.Optimizer,
		)
	}
	if updates == 0 {
		return nil, fmt.Errorf("trainer: there are no averages before the first step")
	}
	read, err := e.Reader()
	if err != nil {
		return nil, err
	}
	averages := make([]array.Array, len(c.Params))
	for i, p := range c.Params {
		at := Tensor{Param: i, Slot: o.Slots() - 1}
		own := p.Fixed || p.Buffer
		if own {
			at.Slot = -1
		}
		if averages[i], err = read(at); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		if !own {
			averages[i] = divided(averages[i], o.Correction(updates))
		}
	}
	return averages, nil
}

// divided returns a copy of a with every element divided by a number.
func divided(a array.Array, by float64) array.Array {
	out := array.New(a.DType(), a.Shape()...)
	for i := range a.Len() {
		out.Set(i, a.At(i)/by)
	}
	return out
}
