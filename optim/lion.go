package optim

import "github.com/galley-ml/galley/op"

// Lion steps by the sign of an average of gradients and needs half of AdamW's memory. Use a third to a tenth
// of AdamW's learning rate and a correspondingly larger decay. [Chen et al. 2023]
type Lion struct {
	// Beta1 weighs the average that determines the step, Beta2 the one that is kept. If both are zero they are
	// 0.9 and 0.99; if Beta2 is set, a Beta1 of 0 means 0.
	Beta1, Beta2 float64
	// WeightDecay shrinks every parameter by LR·WeightDecay per step.
	WeightDecay float64
}

// Slots returns 1: the average of gradients.
func (Lion) Slots() int { return 1 }

// Update returns one parameter's next value and average.
func (l Lion) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	b1, b2 := betas(l.Beta1, l.Beta2, 0.99)
	g := op.Mul(grad, op.ExpandAs(op.Cast(s.Scale, grad.DType()), grad))
	mixed := func(beta float64) *op.Tensor {
		return op.Add(op.MulScalar(slots[0], beta), op.MulScalar(g, 1-beta))
	}
	rate := op.ExpandAs(op.Cast(s.LR, p.DType()), p)
	step := op.Add(op.Sign(mixed(b1)), op.MulScalar(p, l.WeightDecay))
	return op.Sub(p, op.Mul(rate, step)), []*op.Tensor{mixed(b2)}
}
