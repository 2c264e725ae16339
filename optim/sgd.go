package optim

import "github.com/galley-ml/galley/op"

// SGD is gradient descent, with momentum where it is not zero.
type SGD struct {
	Momentum    float64
	WeightDecay float64
	// Nesterov looks ahead along the velocity; it needs momentum.
	Nesterov bool
}

// Slots returns one, the velocity, or none without momentum.
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
