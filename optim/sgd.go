package optim

import "github.com/galley-ml/galley/op"

// SGD is stochastic gradient descent with optional momentum.
type SGD struct {
	Momentum    float64
	WeightDecay float64
	// Nesterov uses Nesterov momentum; it needs Momentum.
	Nesterov bool
}

// Slots returns 1 for the velocity, or 0 without momentum.
func (s SGD) Slots() int {
	if s.Momentum == 0 {
		return 0
	}
	return 1
}

// Update returns one parameter's next value and velocity, by the fused op.
func (s SGD) Update(p, grad *op.Tensor, slots []*op.Tensor, at Step) (*op.Tensor, []*op.Tensor) {
	state := op.SGDState{Param: p, Grad: grad, LR: at.LR, GradScale: at.Scale}
	if s.Momentum == 0 {
		next, _ := op.SGD(state, op.SGDConfig(s))
		return next, nil
	}
	state.Velocity = slots[0]
	next, velocity := op.SGD(state, op.SGDConfig(s))
	return next, []*op.Tensor{velocity}
}
