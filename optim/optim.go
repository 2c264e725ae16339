package optim

import (
	"github.com/galley-ml/galley/op"
)

// Optimizer turns gradients into new parameters. It is stateless: what it remembers between steps is tensors
// that the caller keeps.
type Optimizer interface {
	// Slots returns how many tensors of a parameter's type are remembered for each parameter; they start as
	// zeros.
	Slots() int
	// Update returns one parameter's next value and slots.
	Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (next *op.Tensor, nextSlots []*op.Tensor)
}

// EachElement reports whether an optimizer updates every element of a parameter by itself, so that parameters
// may be updated as one. It knows those of this package: one that has another inside may look at more.
func EachElement(o Optimizer) bool {
	switch o.(type) {
	case SGD, *SGD, Adam, *Adam, AdamW, *AdamW:
		return true
	}
	return false
}

// Step is what changes from step to step, as scalars, so that a compiled program needs no change. All are
// f32.
type Step struct {
	// LR is the learning rate.
	LR *op.Tensor
	// Count is 1 in the first step.
	Count *op.Tensor
	// Scale multiplies every gradient: what clipping asks for, over what loss scaling did.
	Scale *op.Tensor
}
