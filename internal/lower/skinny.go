package lower

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/op"
)

// skinny is a kernel for one or more products of the same few rows with weights. If gate is set it is the
// SwiGLU of two products.
type skinny struct {
	products []*ir.Node
	gate     *ir.Node
	kernel   ptx.SkinnyProduct
}

// addSkinny adds the kernels of products of a few rows with weights: first SwiGLUs of two products, then the
// remaining products, grouped by the rows that they read.
func (k kernels) addSkinny(s programIndex) {
	if k.minShare == 0 {
		return
	}
	for _, n := range s.nodes {
		k.addSkinnyGate(s, n)
	}
	var groups []skinny
	for _, n := range s.nodes {
		p, ok := skinnyOf(n)
		if !ok || k.taken[n] {
			continue
		}
		i := slices.IndexFunc(groups, func(g skinny) bool { return g.takes(s, p) })
		if i < 0 {
			groups = append(groups, p)
			continue
		}
		groups[i].products = append(groups[i].products, n)
		groups[i].kernel.Cols = append(groups[i].kernel.Cols, p.kernel.Cols...)
	}
	for _, g := range groups {
		k.take(g.products[0], g, g.products[1:])
	}
}

// take makes the kernel by, called at a node, compute other nodes too.
func (k kernels) take(at *ir.Node, by fusedKernel, others []*ir.Node) {
	k.at[at], k.taken[at] = by, true
	for _, n := range others {
		k.other[n], k.taken[n] = true, true
	}
}

// addSkinnyGate adds the kernel of a SwiGLU of two products that nothing else reads.
func (k kernels) addSkinnyGate(s programIndex, n *ir.Node) {
	if _, ok := role[op.SwiGLURole](n); !ok || k.taken[n] {
		return
	}
	var parts []skinny
	for _, v := range n.In()[:2] {
		if v.Node() == nil || s.uses[v] != 1 || k.taken[v.Node()] {
			return
		}
		p, ok := skinnyOf(v.Node())
		if !ok {
			return
		}
		parts = append(parts, p)
	}
	p := parts[0]
	if !p.alike(parts[1]) || p.products[0] == parts[1].products[0] {
		return
	}
	p.gate = n
	p.products = append(p.products, parts[1].products...)
	p.kernel.Cols, p.kernel.Gated = append(p.kernel.Cols, parts[1].kernel.Cols...), true
	if p.kernel.Fits() {
		k.take(n, p, p.products)
	}
}

// skinnyOf returns the kernel of one product, and whether it is supported.
func skinnyOf(n *ir.Node) (skinny, bool) {
	q := ptx.SkinnyProduct{Bits: 16}
	if m, ok := weightProduct(n); ok && m.TransY {
		q.Cols = []int{n.In()[1].Dim(0)}
	} else if r, ok := role[op.QuantizedLinearRole](n); ok && len(n.In()) == 3 &&
		n.In()[0].DType() == array.BF16 {
		q.Bits, q.Group, q.Cols = r.Bits, r.Group, []int{n.In()[1].Dim(0)}
	} else {
		return skinny{}, false
	}
	x := n.In()[0]
	q.Depth = x.Dim(-1)
	q.Rows = x.Shape().Len() / max(1, q.Depth)
	return skinny{products: []*ir.Node{n}, kernel: q}, q.Fits()
}

// alike reports whether products read the same rows and have weights of one format.
func (g skinny) alike(p skinny) bool {
	return g.products[0].In()[0] == p.products[0].In()[0] && g.kernel.Bits == p.kernel.Bits &&
		g.kernel.Group == p.kernel.Group
}

// takes reports whether another product can join the group: its weights are computed before the group's first
// product.
func (g skinny) takes(s programIndex, p skinny) bool {
	for _, v := range p.products[0].In()[1:] {
		if v.Node() != nil && s.at[v.Node()] >= s.at[g.products[0]] {
			return false
		}
	}
	return g.alike(p)
}

func (g skinny) emit(w *hlo.Writer, refs []hlo.Ref) {
	in := refsOf(refs, g.products[0].In()[:1])
	var results []*ir.Value
	for _, n := range g.products {
		in = append(in, refsOf(refs, n.In()[1:])...)
		results = append(results, n.Out()[0])
	}
	if g.gate != nil {
		results = g.gate.Out()
	}
	types := make([]hlo.Type, len(results))
	for i, v := range results {
		types[i] = hloType(v.Type())
	}
	for i, r := range cuda.CallPTX(w, g.kernel.Kernel(), in, types...) {
		refs[results[i].ID()] = r
	}
}
