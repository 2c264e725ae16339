package optim

import "github.com/galley-ml/galley/op"

// Averaged keeps a moving average of the weights beside them, which often does better than the last ones. It
// is the last slot of each parameter; see AverageOf.
type Averaged struct {
	// Optimizer updates the weights.
	Optimizer Optimizer
	// Decay is how much of the average stays in a step; zero means 0.999.
	Decay float64
}

// Slots returns one more than the optimizer has.
func (a Averaged) Slots() int { return a.Optimizer.Slots() + 1 }

// Update returns the optimizer's, and the average with the new weights.
func (a Averaged) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	n := a.Optimizer.Slots()
	next, kept := a.Optimizer.Update(p, grad, slots[:n], s)
	decay := orElse(a.Decay, 0.999)
	average := op.Add(op.MulScalar(slots[n], decay), op.MulScalar(next, 1-decay))
	return next, append(kept, average)
}

// Named returns the same for the parameter of a name, where the optimizer has several.
func (a Averaged) Named(name string) Optimizer {
	return Averaged{Optimizer: For(a.Optimizer, name), Decay: a.Decay}
}

// Check returns what is wrong with the optimizer.
func (a Averaged) Check(names []string) error { return Check(a.Optimizer, names) }

// Correction returns what the last slot is divided by after a number of steps: it began as zeros, and holds
// that much of the weights of all steps.
func (a Averaged) Correction(steps int) float64 {
	held := 1.0
	decay := orElse(a.Decay, 0.999)
	for range steps { // decay to the power of steps
		if held *= decay; held < 1e-18 {
			return 1
		}
	}
	return 1 - held
}
