package optim

import "github.com/galley-ml/galley/op"

// Adam is Adam with weight decay as a part of the gradient. [Kingma and Ba 2015]
type Adam AdamW

// Slots returns two: the first and second moment.
func (Adam) Slots() int { return 2 }

// Update returns one parameter's next value and moments, by the fused op.
func (a Adam) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	next, m, v := op.Adam(adamState(p, grad, slots, s), AdamW(a).config())
	return next, []*op.Tensor{m, v}
}
