package lower

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/triton"
	"github.com/galley-ml/galley/op"
)

// pair is a kernel for an addition and an RMSNorm next to it: the norm of the sum, or the norm's gradient
// that is added to another gradient.
type pair struct{ add, norm *ir.Node }

// addPair adds the pair whose second node is n.
func (k kernels) addPair(s programIndex, n *ir.Node) {
	p, ok := s.pairOf(n)
	if !ok || k.taken[p.add] || k.taken[p.norm] {
		return
	}
	if here, there, ok := s.call(p); ok {
		k.at[here], k.other[there], k.taken[here], k.taken[there] = p, true, true, true
	}
}

// call returns the node at which a pair's kernel is called: the earlier one if all operands are computed by
// then, else the later one if nothing reads the earlier one's results before it.
func (s programIndex) call(p pair) (here, other *ir.Node, ok bool) {
	here, other = p.add, p.norm
	if s.at[other] < s.at[here] {
		here, other = other, here
	}
	early, late := true, true
	for _, v := range other.In() {
		v = unmarked(v)
		early = early && (v.Node() == nil || v.Node() == here || s.at[v.Node()] < s.at[here])
	}
	for _, v := range here.Out() {
		late = late && (s.uses[v] == 0 || s.first[v] >= s.at[other])
	}
	if early {
		return here, other, true
	}
	return other, here, late
}

// pairOf returns the norm n and the addition whose result it reads, or the addition n and a norm's gradient
// that only n reads.
func (s programIndex) pairOf(n *ir.Node) (pair, bool) {
	if _, ok := role[op.RMSNormRole](n); ok && kernelRows(n.In()[0], n.In()[1]) {
		sum := unmarked(n.In()[0]).Node()
		return pair{add: sum, norm: n}, sum != nil && plainSum(sum)
	}
	if !plainSum(n) {
		return pair{}, false
	}
	for _, x := range n.In() {
		g := x.Node()
		if g == nil || s.uses[x] != 1 || x != g.Out()[0] {
			continue
		}
		if _, ok := role[op.RMSNormGradRole](g); ok && kernelRows(g.In()[0], g.In()[1]) {
			return pair{add: n, norm: g}, true
		}
	}
	return pair{}, false
}

// plainSum reports whether a node adds two arrays of one type.
func plainSum(n *ir.Node) bool {
	_, ok := role[op.AddRole](n)
	return ok && n.In()[0].Type().Equal(n.In()[1].Type())
}

// kernelRows reports whether the kernels support the rows' type and length.
func kernelRows(x, gamma *ir.Value) bool {
	return x.DType().IsHalf() && triton.Supports(gamma.DType()) && triton.Holds(x.Dim(-1)) && x.Shape().Len() > 0
}

func (p pair) emit(w *hlo.Writer, refs []hlo.Ref) {
	get := func(v *ir.Value) hlo.Ref { return refs[v.ID()] }
	x := p.norm.In()[0]
	width := x.Dim(-1)
	rows := x.Shape().Len() / width
	if o, ok := role[op.RMSNormRole](p.norm); ok {
		k := triton.AddRMSNorm(x.DType(), p.norm.In()[1].DType(), rows, width, o.Eps)
		in := []hlo.Ref{get(p.add.In()[0]), get(p.add.In()[1]), get(p.norm.In()[1])}
		r := cuda.CallTriton(w, k, in, hloType(x.Type()), hloType(x.Type()), hloType(p.norm.Out()[1].Type()))
		refs[p.add.Out()[0].ID()], refs[p.norm.Out()[0].ID()], refs[p.norm.Out()[1].ID()] = r[0], r[1], r[2]
		return
	}
	other := p.add.In()[0]
	if other == p.norm.Out()[0] {
		other = p.add.In()[1]
	}
	gamma := p.norm.In()[1]
	in := append(refsOf(refs, p.norm.In()), get(other))
	in[2], in[3] = w.Convert(in[2], x.DType()), w.Convert(in[3], array.F32)
	sums := hlo.Type{DType: array.F32, Shape: array.Shape{triton.GradSums(rows, width), width}}
	r := cuda.CallTriton(w, triton.RMSNormGrad(x.DType(), gamma.DType(), rows, width), in, hloType(x.Type()),
		sums)
	refs[p.add.Out()[0].ID()] = r[0]
	sum := w.Reduce("add", r[1], 0, []int{0}, hlo.Type{DType: array.F32, Shape: array.Shape{width}})
	refs[p.norm.Out()[1].ID()] = w.Convert(sum, gamma.DType())
}
