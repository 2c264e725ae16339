package op

import "github.com/galley-ml/galley/internal/ir"

// ulysses is a group of devices that split a sequence and exchange that for a split of the heads.
type ulysses struct {
	joint
	parts []int
	me    int
}

// newUlysses returns the devices of a place, and whether the heads of keys divide among them. Dim 1 of the
// keys is the sequence.
func newUlysses(at *Place) (ulysses, bool) {
	u := ulysses{joint: at.joint(1, 1)}
	for _, p := range partsOf(u.mesh, at.In[1].Shape[1], u.axes) {
		u.parts = append(u.parts, p.Size)
	}
	u.me = at.along(u.axes)
	return u, at.LocalIn[1].Shape[2]%len(u.parts) == 0
}

// sizes returns the sizes of the parts of the sequence, or nil if they are equal.
func (u ulysses) sizes() []int {
	if u.total%len(u.parts) == 0 {
		return nil
	}
	return u.parts
}

// toHeads gathers the dim seq and splits the dim heads, with an all-to-all.
func (u ulysses) toHeads(x *Tensor, seq, heads int) *Tensor {
	return AllToAll(x, u.mesh, u.axes, Exchange{Split: heads, Concat: seq, Parts: u.sizes()})
}

// toSequence is the inverse of toHeads.
func (u ulysses) toSequence(x *Tensor, seq, heads int) *Tensor {
	e := Exchange{Split: seq, Concat: heads, Sizes: u.sizes()}
	if e.Sizes != nil {
		e.Own = u.parts[u.me]
	}
	return AllToAll(x, u.mesh, u.axes, e)
}

// whole gathers tensors without heads: segment ids.
func (u ulysses) whole(xs []*Tensor) []*Tensor {
	var out []*Tensor
	for _, x := range xs {
		out = append(out, AllGather(x, u.mesh, u.axes, 1, u.sizes()))
	}
	return out
}

// attend returns the attention of whole sequences on the device's heads.
func (u ulysses) attend(o attention, in []*Tensor) []*Tensor {
	var operands []*Tensor
	for _, x := range in[:3] {
		operands = append(operands, u.toHeads(x, 1, 2))
	}
	y := ir.Apply(o, append(operands, u.whole(in[3:])...)...)
	return []*Tensor{u.toSequence(y[0], 1, 2), u.toSequence(y[1], 2, 1)}
}

// attendBack returns the gradient of attend. All that it needs of the result is one number for each row, the
// product of result and gradient, which is equivalent to a gradient of lse. So zeros replace the result,
// which is not sent. In 16 bits it is sent, because the kernels of accelerators compute that number
// themselves.
func (u ulysses) attendBack(o attentionGrad, in []*Tensor) []*Tensor {
	q, k, v, out, lse, dout, extras := in[0], in[1], in[2], in[3], in[4], in[5], in[o.fixed():]
	dy := u.toHeads(dout, 1, 2)
	operands := []*Tensor{u.toHeads(q, 1, 2), u.toHeads(k, 1, 2), u.toHeads(v, 1, 2), nil, u.toHeads(lse, 2, 1),
		dy}
	if q.DType().IsHalf() && !o.LSEGrad {
		operands[3] = u.toHeads(out, 1, 2)
	} else {
		delta := Neg(Transpose(Sum(Mul(wide(dout), wide(out)), -1), 0, 2, 1))
		if o.LSEGrad {
			delta = Add(delta, wide(in[6]))
		}
		operands[3], o.LSEGrad = ZerosLike(dy), true
		operands = append(operands, u.toHeads(delta, 2, 1))
	}
	var grads []*Tensor
	for _, dx := range ir.Apply(o, append(operands, u.whole(extras)...)...) {
		grads = append(grads, u.toSequence(dx, 1, 2))
	}
	return grads
}
