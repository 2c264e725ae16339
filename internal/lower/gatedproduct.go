package lower

import (
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/op"
)

// gatedProduct is a kernel for a matrix product and the SwiGLU of the halves of its result.
type gatedProduct struct {
	product, node *ir.Node
	kernel        ptx.GatedProduct
}

// addGatedProduct adds the fused kernel of a SwiGLU and the product whose halves it reads. It reports whether
// there is one.
func (k kernels) addGatedProduct(s programIndex, g gated) bool {
	product := s.kernelProduct(g.split)
	if product == nil || k.taken[product] {
		return false
	}
	x := product.In()[0]
	p := gatedProduct{product, g.node, ptx.GatedProduct{Rows: x.Shape().Len() / x.Dim(-1), Depth: x.Dim(-1),
		Width: g.node.Out()[0].Dim(-1)}}
	if !k.worthwhile(p.kernel) {
		return false
	}
	k.at[product], k.other[g.node], k.taken[product], k.taken[g.node] = p, true, true, true
	return true
}

func (p gatedProduct) emit(w *hlo.Writer, refs []hlo.Ref) {
	both, out := p.product.Out()[0], p.node.Out()[0]
	r := cuda.CallPTX(w, p.kernel.Kernel(), refsOf(refs, p.product.In()), hloType(both.Type()),
		hloType(out.Type()))
	refs[both.ID()], refs[out.ID()] = r[0], r[1]
}

// gatedGradient is a kernel for a product that yields the gradient of a SwiGLU's result, followed by the
// SwiGLU's gradients, concatenated.
type gatedGradient struct {
	product, join *ir.Node
	both          *ir.Value
	kernel        ptx.GatedGradient
}

// addGatedGradient adds the fused kernel of a SwiGLU's gradient and the product that it reads.
func (k kernels) addGatedGradient(s programIndex, n *ir.Node) {
	if _, ok := role[op.SwiGLUGradRole](n); !ok || k.taken[n] {
		return
	}
	dy := n.In()[2]
	cut, join := cutOf(n.In()[0], n.In()[1]), s.joinOf(n)
	product := dy.Node()
	if cut == nil || join == nil || s.uses[dy] != 1 || product == nil || k.taken[product] || k.taken[join] {
		return
	}
	if m, ok := weightProduct(product); !ok || m.TransY {
		return
	}
	x := product.In()[0]
	g := gatedGradient{product, join, cut.In()[0],
		ptx.GatedGradient{Rows: x.Shape().Len() / x.Dim(-1), Depth: x.Dim(-1), Width: dy.Dim(-1)}}
	if !k.worthwhile(g.kernel) {
		return
	}
	k.at[n] = g
	k.other[product], k.other[join] = true, true
	k.taken[n], k.taken[product], k.taken[join] = true, true, true
}

// joinOf returns the node that concatenates a node's two results along their last dim, if nothing else reads
// them.
func (s programIndex) joinOf(n *ir.Node) *ir.Node {
	a, b := n.Out()[0], n.Out()[1]
	join := s.reader(a)
	if join == nil || s.reader(b) != join || len(join.In()) != 2 || join.In()[0] != a || join.In()[1] != b {
		return nil
	}
	if c, ok := role[op.ConcatRole](join); !ok || c.Dim != len(a.Shape())-1 {
		return nil
	}
	return join
}

func (g gatedGradient) emit(w *hlo.Writer, refs []hlo.Ref) {
	in := append(refsOf(refs, g.product.In()), refs[g.both.ID()])
	out := g.join.Out()[0]
	refs[out.ID()] = cuda.CallPTX(w, g.kernel.Kernel(), in, hloType(out.Type()))[0]
}
