package lower

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// worth reports whether a product's kernel is to be called.
func (k kernels) worth(p interface {
	Fits() bool
	Share() float64
}) bool {
	return k.least > 0 && p.Fits() && p.Share() >= k.least
}

// kernelProduct returns the node of a product with weights that a kernel could compute, whose result is only
// cut into parts of the last dim by a node; nil if that node is no such one.
func (s programIndex) kernelProduct(cut *ir.Node) *ir.Node {
	o, ok := role[op.SplitRole](cut)
	if !ok || o.Dim != len(cut.In()[0].Shape())-1 || s.uses[cut.In()[0]] != 1 {
		return nil
	}
	n := cut.In()[0].Node()
	if n == nil {
		return nil
	}
	if m, ok := weighted(n); !ok || !m.TransY {
		return nil
	}
	return n
}

// weighted returns the product of rows with weights, in bf16, that a node is.
func weighted(n *ir.Node) (op.MatMulRole, bool) {
	m, ok := role[op.MatMulRole](n)
	if !ok || m.TransX || len(n.In()[1].Shape()) != 2 || n.In()[0].Dim(-1) == 0 {
		return m, false
	}
	for _, v := range slices.Concat(n.Out(), n.In()) {
		ok = ok && v.DType() == array.BF16
	}
	return m, ok
}

// reader returns the one node that reads a value, nil if there are others.
func (s programIndex) reader(v *ir.Value) *ir.Node {
	if s.uses[v] != 1 || s.first[v] == len(s.nodes) {
		return nil
	}
	return s.nodes[s.first[v]]
}
