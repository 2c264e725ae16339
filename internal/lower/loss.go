package lower

import (
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/triton"
	"github.com/galley-ml/galley/op"
)

// fusedLoss is a kernel for a cross entropy and the gradient of its logits, so that the logits are read from
// memory once. It needs the gradient of the loss to be known before the loss, as it is unless the loss is
// scaled by something computed from it.
type fusedLoss struct{ loss, grad *ir.Node }

// labelCount replaces the loss node. It computes the number of labels, which needs no logits and which the
// gradient may need.
type labelCount struct{ loss *ir.Node }

// addLoss adds the kernel of a gradient of logits and its loss, unless the gradient needs the loss's value.
// Nodes between the two that need the value are moved after the gradient. If nodes depend on several losses
// only the first loss is moved, so that no moved node waits for another kernel.
func (k kernels) addLoss(s programIndex, n *ir.Node) {
	l, ok := lossPair(n)
	if !ok || k.taken[l.loss] || k.taken[n] {
		return
	}
	made := map[*ir.Value]bool{l.loss.Out()[0]: true, l.loss.Out()[1]: true}
	var late []int
	for i := s.at[l.loss] + 1; i < s.at[n]; i++ {
		m := s.nodes[i]
		if !usesAny(m.In(), made) {
			continue
		}
		if k.taken[m] {
			return
		}
		late = append(late, i)
		for _, v := range m.Out() {
			made[v] = true
		}
	}
	if usesAny([]*ir.Value{n.In()[0], n.In()[1], n.In()[3]}, made) {
		return
	}
	k.at[l.loss], k.at[n], k.late[n] = labelCount{l.loss}, l, late
	k.taken[l.loss], k.taken[n] = true, true
	for _, i := range late {
		k.taken[s.nodes[i]] = true
		s.at[s.nodes[i]] = s.at[n] // their new position
	}
}

func usesAny(in []*ir.Value, made map[*ir.Value]bool) bool {
	for _, v := range in {
		if made[v] {
			return true
		}
	}
	return false
}

// lossPair returns the gradient n of 16-bit logits and its loss. It requires that a row has all classes.
func lossPair(n *ir.Node) (l fusedLoss, ok bool) {
	g, ok := role[op.CrossEntropyGradRole](n)
	if !ok || !g.Whole() {
		return l, false
	}
	l = fusedLoss{n.In()[2].Node(), n}
	if l.loss == nil {
		return l, false
	}
	o, ok := role[op.CrossEntropyRole](l.loss)
	if !ok || n.In()[2] != l.loss.Out()[1] || !g.Of(o) {
		return l, false
	}
	x := n.In()[0]
	same := unmarked(x) == unmarked(l.loss.In()[0]) && unmarked(n.In()[1]) == unmarked(l.loss.In()[1])
	return l, same && x.DType().IsHalf() && n.Out()[0].DType() == x.DType() && x.Shape().Len() > 0
}

func (c labelCount) emit(w *hlo.Writer, refs []hlo.Ref) {
	o, _ := role[op.CrossEntropyRole](c.loss)
	refs[c.loss.Out()[2].ID()] = o.EmitCount(w, refs[c.loss.In()[1].ID()], c.loss.Out()[2].DType())
}

func (l fusedLoss) emit(w *hlo.Writer, refs []hlo.Ref) {
	in := refsOf(refs, l.grad.In())
	g, _ := role[op.CrossEntropyGradRole](l.grad)
	rows, width := rowsOf(in[0].Shape)
	lse := hloType(l.loss.Out()[1].Type())
	k := triton.CrossEntropy(in[0].DType, rows, width, g.Target(width))
	r := cuda.CallTriton(w, k, []hlo.Ref{in[0], g.EmitLabels(w, in[1]), g.EmitRows(w, in)}, lse,
		hloType(l.grad.Out()[0].Type()))
	top := r[0]
	o, _ := role[op.CrossEntropyRole](l.loss)
	loss := o.EmitLoss(w, in[0], in[1], top)
	refs[l.loss.Out()[0].ID()], refs[l.loss.Out()[1].ID()], refs[l.grad.Out()[0].ID()] = loss, top, r[1]
}
