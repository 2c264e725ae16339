package optim

import (
	"github.com/galley-ml/galley/op"
)

// Optimizer computes updated parameters from gradients. It is stateless: its state is tensors that the caller
// keeps between steps.
type Optimizer interface {
	// Slots returns the number of state tensors per parameter, of the parameter's type; they start as zeros.
	Slots() int
	// Update returns one parameter's next value and slots.
	Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (next *op.Tensor, nextSlots []*op.Tensor)
}

// EachElement reports whether an optimizer updates every element of a parameter independently, so that
// several parameters may be updated as one. It only knows the optimizers of this package, since a wrapper
// might look at whole tensors.
func EachElement(o Optimizer) bool {
	switch o.(type) {
	case SGD, *SGD, Adam, *Adam, AdamW, *AdamW:
		return true
	}
	return false
}

// Step has the values that change from step to step, as f32 scalars, so that the compiled program need not
// change.
type Step struct {
	// LR is the learning rate.
	LR *op.Tensor
	// Count is 1 in the first step.
	Count *op.Tensor
	// Scale multiplies every gradient: the clipping factor divided by the loss scale.
	Scale *op.Tensor
}
