package lower

import (
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/op"
)

// ropeProduct is a kernel for a product that is split into heads, to some of which rotary embeddings are
// applied. Nothing else may read the heads before rotation.
type ropeProduct struct {
	product *ir.Node
	rope    op.RoPERole
	kernel  ptx.RoPEProduct
	results []*ir.Value
	between []*ir.Node
}

// addRoPE adds the kernel of the product whose result n splits, if the parts become heads and rotary
// embeddings are applied to the first of them.
func (k kernels) addRoPE(s programIndex, n *ir.Node) {
	product := s.kernelProduct(n)
	if product == nil || k.taken[product] || len(product.In()[0].Shape()) != 3 {
		return
	}
	x := product.In()[0]
	t := ropeProduct{product: product, between: []*ir.Node{n},
		kernel: ptx.RoPEProduct{Rows: x.Dim(0) * x.Dim(1), Seq: x.Dim(1), Depth: x.Dim(2)}}
	for _, part := range n.Out() {
		if !t.add(s, part) {
			return
		}
	}
	if !k.worthwhile(t.kernel) {
		return
	}
	k.at[product], k.taken[product] = t, true
	for _, b := range t.between {
		k.other[b], k.taken[b] = true, true
	}
}

// add adds a part of the product and reports whether it is supported: it must be reshaped to heads.
func (t *ropeProduct) add(s programIndex, part *ir.Value) bool {
	n := s.reader(part)
	if n == nil {
		return false
	}
	x, heads := t.product.In()[0], n.Out()[0]
	if _, ok := role[op.ReshapeRole](n); !ok || len(heads.Shape()) != 4 ||
		!heads.Shape()[:2].Equal(x.Shape()[:2]) {
		return false
	}
	t.between = append(t.between, n)
	if rotation := s.reader(heads); rotation != nil && t.rotates(rotation, heads) {
		t.kernel.Rotated = append(t.kernel.Rotated, part.Dim(2))
		t.between, t.results = append(t.between, rotation), append(t.results, rotation.Out()[0])
		return len(t.kernel.Plain) == 0
	}
	t.kernel.Plain, t.results = append(t.kernel.Plain, part.Dim(2)), append(t.results, heads)
	return true
}

// rotates reports whether a node rotates heads in the way of the kernel, and like those added before.
func (t *ropeProduct) rotates(n *ir.Node, heads *ir.Value) bool {
	o, ok := role[op.RoPERole](n)
	if !ok || !o.ByHalves(heads.Shape()) {
		return false
	}
	if len(t.kernel.Rotated) == 0 {
		t.rope, t.kernel.Head = o, heads.Dim(3)
	}
	return o.Equal(t.rope) && t.kernel.Head == heads.Dim(3)
}

func (t ropeProduct) emit(w *hlo.Writer, refs []hlo.Ref) {
	cos, sin := t.rope.EmitTable(w, t.results[0].Shape())
	types := make([]hlo.Type, len(t.results))
	for i, r := range t.results {
		types[i] = hloType(r.Type())
	}
	in := append(refsOf(refs, t.product.In()), cos, sin)
	for i, r := range cuda.CallPTX(w, t.kernel.Kernel(), in, types...) {
		refs[t.results[i].ID()] = r
	}
}
