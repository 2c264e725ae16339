package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// mlpMatch describes a value y that is a network of the form of mlpSeries at points x.
type mlpMatch struct {
	y, x *Tensor
	w, b []*Tensor // the last layer's first; a bias may be nil
	// between holds the values between x and y.
	between []*Tensor
}

// mlpWidest is the largest number of columns of a layer; beyond it, products of whole matrices are as fast.
// mlpDeepest is the largest number of layers.
const mlpWidest, mlpDeepest = 64, 32

// matchMLP returns a match if everything between xs and ys is a network of small layers with tanh between
// them and mlpSeries supports the derivatives. If the gradient of a value in between is needed, ops stay as
// they are.
func matchMLP(order []*ir.Node, ys, xs []*Tensor, ds []Direction) *mlpMatch {
	if len(ys) != 1 || len(xs) != 1 || len(ds) == 0 || len(xs[0].Shape()) != 2 {
		return nil
	}
	if d := xs[0].DType(); d != array.F32 && d != array.F64 || xs[0].Dim(1) < 1 || xs[0].Dim(1) > mlpWidest {
		return nil
	}
	for _, d := range ds {
		if d.Order < 1 || d.Order > 2 || d.Along[0] == nil {
			return nil
		}
	}
	m := &mlpMatch{y: ys[0], x: xs[0]}
	if nodes := m.layers(); nodes != len(order) || len(m.w) < 2 || len(m.w) > mlpDeepest {
		return nil
	}
	if slices.ContainsFunc(m.between, ir.Watched) {
		return nil
	}
	return m
}

// layers walks from y back to x and counts the nodes of layers; it returns 0 if it finds another op.
func (m *mlpMatch) layers() (nodes int) {
	for v := m.y; ; {
		from, n := m.layer(v)
		if n == 0 {
			return 0
		}
		if nodes += n; from == m.x {
			return nodes
		}
		t := from.Node()
		if t == nil || t.Op() != ir.Op(tanh{}) {
			return 0
		}
		nodes, v = nodes+1, t.In()[0]
		m.between = append(m.between, from, v)
	}
}

// layer returns the input of the layer that computes v, and the number of its nodes; 0 if it is not a layer.
func (m *mlpMatch) layer(v *Tensor) (from *Tensor, nodes int) {
	n, bias := v.Node(), (*Tensor)(nil)
	if n != nil && n.Op() == ir.Op(add{}) {
		v, bias = n.In()[0], n.In()[1]
		n, nodes = v.Node(), 1
		m.between = append(m.between, v)
	}
	if n == nil || len(n.In()[0].Shape()) != 2 || len(n.In()) > 1 && n.In()[1] == m.x {
		return nil, 0
	}
	transposed := false
	switch o := n.Op().(type) {
	case matmul:
		if o.TransX || len(n.In()[1].Shape()) != 2 {
			return nil, 0
		}
		transposed = o.TransY
	case linear:
		if o.Elsewhere || bias != nil {
			return nil, 0
		}
		transposed, bias = !o.TransW, n.In()[2]
	default:
		return nil, 0
	}
	if width := v.Dim(1); width < 1 || width > mlpWidest ||
		bias != nil && !slices.Equal(bias.Shape(), []int{width}) {
		return nil, 0
	}
	w := n.In()[1]
	if transposed {
		w = Transpose(w, 1, 0)
	}
	m.w, m.b = append(m.w, w), append(m.b, bias)
	return n.In()[0], nodes + 1
}

// follow computes the series of y along all lines with one op.
func (m *mlpMatch) follow(lines []jet, ds []Direction) {
	if b, ok := m.y.Scope().(*ir.Builder); ok {
		defer b.At(m.y.Node().Pos())()
	}
	o, args := mlpSeries{}, []*Tensor{m.x}
	for _, d := range ds {
		o.Orders, args = append(o.Orders, d.Order), append(args, d.Along[0])
	}
	for l, w := range slices.Backward(m.w) {
		b := m.b[l]
		if b == nil {
			b = Zeros(w.Scope(), w.DType(), w.Dim(1))
		}
		args = append(args, w, b)
	}
	out := ir.Apply(o, args...)
	for _, v := range m.between {
		ir.FuseInto(v, o.Name())
	}
	at := 1
	for i, k := range o.Orders {
		known := out[at : at+k : at+k]
		lines[i][m.y] = &series{value: out[0], known: known, next: func(int) *Tensor { return nil }}
		at += k
	}
}
