package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// alongLines computes the derivatives along all lines with one op in f64, up to the second derivative. Ops on
// 32-bit floats are fused into one loop anyway; those on f64 go through memory one by one.
func (tanh) alongLines(n *ir.Node, lines []jet, ds []Direction) {
	x, y := n.In()[0], n.Out()[0]
	if x.DType() != array.F64 {
		return
	}
	o, args, moving := tanhSeries{}, []*Tensor{y}, []jet{}
	for i, j := range lines {
		s := j.of(x)
		if !moves(s) || ds[i].Order < 1 || ds[i].Order > 2 || j[y] != nil {
			continue
		}
		for k := range ds[i].Order {
			args = append(args, s.full(k+1))
		}
		o.Orders, moving = append(o.Orders, ds[i].Order), append(moving, j)
	}
	if len(moving) == 0 {
		return
	}
	if b, ok := y.Scope().(*ir.Builder); ok {
		defer b.At(n.Pos())()
	}
	out := ir.Apply(o, args...)
	for i, j := range moving {
		k := o.Orders[i]
		s := &series{value: y, known: out[:k:k]}
		rule := j.rule(n, []*series{j.of(x)}, []*series{s})
		s.next = func(k int) *Tensor { return rule(k)[0] }
		j[y], out = s, out[k:]
	}
}
