package optim

import "github.com/galley-ml/galley/op"

// Averaged keeps an exponential moving average (EMA) of the weights, which often generalises better than the
// last ones. It is the last slot of each parameter.
type Averaged struct {
	// Optimizer updates the weights.
	Optimizer Optimizer
	// Decay is the fraction of the average that is kept per step; zero means 0.999.
	Decay float64
}

// Slots returns one more than the optimizer's.
func (a Averaged) Slots() int { return a.Optimizer.Slots() + 1 }

// Update returns the optimizer's update, and the average including the new weights.
func (a Averaged) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	n := a.Optimizer.Slots()
	next, kept := a.Optimizer.Update(p, grad, slots[:n], s)
	decay := orElse(a.Decay, 0.999)
	average := op.Add(op.MulScalar(slots[n], decay), op.MulScalar(next, 1-decay))
	return next, append(kept, average)
}

// Named returns the averaged optimizer of the named parameter.
func (a Averaged) Named(name string) Optimizer {
	return Averaged{Optimizer: For(a.Optimizer, name), Decay: a.Decay}
}

// Check returns an error if the wrapped optimizer does not fit the parameters.
func (a Averaged) Check(names []string) error { return Check(a.Optimizer, names) }

// Correction returns the divisor that removes the bias of the average after a number of steps, since it
// starts at zero.
func (a Averaged) Correction(steps int) float64 {
	held := 1.0
	decay := orElse(a.Decay, 0.999)
	for range steps { // computes decay to the power of steps
		if held *= decay; held < 1e-18 {
			return 1
		}
	}
	return 1 - held
}
