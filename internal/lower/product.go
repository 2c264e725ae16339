package lower

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// worthwhile reports whether a product's kernel is supported and keeps enough of the device busy.
func (k kernels) worthwhile(p interface {
	Fits() bool
	Share() float64
}) bool {
	return k.minShare > 0 && p.Fits() && p.Share() >= k.minShare
}

// kernelProduct returns the product with weights whose result is read only by cut, which must split its last
// dim; nil if there is no such product.
func (s programIndex) kernelProduct(cut *ir.Node) *ir.Node {
	o, ok := role[op.SplitRole](cut)
	if !ok || o.Dim != len(cut.In()[0].Shape())-1 || s.uses[cut.In()[0]] != 1 {
		return nil
	}
	n := cut.In()[0].Node()
	if n == nil {
		return nil
	}
	if m, ok := weightProduct(n); !ok || !m.TransY {
		return nil
	}
	return n
}

// weightProduct reports whether a node is a product of rows with a weight matrix in bf16, and returns its
// role.
func weightProduct(n *ir.Node) (op.MatMulRole, bool) {
	m, ok := role[op.MatMulRole](n)
	if !ok || m.TransX || len(n.In()[1].Shape()) != 2 || n.In()[0].Dim(-1) == 0 {
		return m, false
	}
	for _, v := range slices.Concat(n.Out(), n.In()) {
		ok = ok && v.DType() == array.BF16
	}
	return m, ok
}

// reader returns the only node that reads a value, or nil if there is not exactly one.
func (s programIndex) reader(v *ir.Value) *ir.Node {
	if s.uses[v] != 1 || s.first[v] == len(s.nodes) {
		return nil
	}
	return s.nodes[s.first[v]]
}
