package spmd

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// use is one operand of one node.
type use struct {
	node    *ir.Node
	operand int
}

// usesOf returns, by value ID, where values are used, and whether they are returned.
func usesOf(f *ir.Func) (uses [][]use, returned []bool) {
	uses, returned = make([][]use, f.NumValues()), make([]bool, f.NumValues())
	for _, n := range f.Nodes() {
		for i, v := range n.In() {
			uses[v.ID()] = append(uses[v.ID()], use{n, i})
		}
	}
	for _, v := range f.Results() {
		returned[v.ID()] = true
	}
	return uses, returned
}

// unused reports whether nothing reads a value.
func (p *planner) unused(v *ir.Value) bool { return len(p.uses[v.ID()]) == 0 && !p.returned[v.ID()] }

// later reports whether a partial result of an op may stay partial although its layout is not: its only use
// is in an op that is linear in it, so that sums are reduced once, further on. With several uses each might
// reduce its own. An annotated value gets its requested layout.
func (p *planner) later(n *ir.Node, v *ir.Value, give mesh.Spec) bool {
	id := v.ID()
	want := p.layouts[id].Spec
	if p.layouts[n.Out()[0].ID()].Mesh != p.layouts[id].Mesh { // a move requires reducing it first
		return false
	}
	if len(give.Partial) == 0 || !give.With().Equal(want.With()) || p.returned[id] || p.asked(n) ||
		len(p.uses[id]) != 1 {
		return false
	}
	for _, q := range give.Partial {
		if q.Reduce != mesh.Sum && q.Reduce != mesh.Mean {
			return false
		}
	}
	return p.takesSums(p.uses[id][0])
}

// takesSums reports whether a node is linear in an operand that is on its own mesh.
func (p *planner) takesSums(u use) bool {
	for _, v := range append(slices.Clone(u.node.In()), u.node.Out()...) {
		if p.layouts[v.ID()].Mesh != p.layouts[u.node.In()[u.operand].ID()].Mesh {
			return false
		}
	}
	if _, ok := u.node.Op().(op.Constrainer); ok {
		return false
	}
	l, ok := u.node.Op().(op.Multilinear)
	return ok && slices.ContainsFunc(l.Linear(), func(g []int) bool {
		return len(g) == 0 || slices.Contains(g,
			u.operand)
	})
}
