package optim

import "github.com/galley-ml/galley/op"

// Adam is the Adam optimizer with L2 regularisation: weight decay is added to the gradient. [Kingma and Ba
// 2015]
type Adam AdamW

// Slots returns 2: the first and second moment.
func (Adam) Slots() int { return 2 }

// Update returns one parameter's next value and moments, by the fused op.
func (a Adam) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	next, m, v := op.Adam(adamState(p, grad, slots, s), AdamW(a).config())
	return next, []*op.Tensor{m, v}
}
