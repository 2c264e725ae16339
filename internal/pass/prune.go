package pass

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Prune removes nodes whose results are unused, and unused results of ops. Parameters stay: they are the
// program's signature.
func Prune(f *ir.Func) (*ir.Func, error) {
	live := make([]bool, f.NumValues())
	for _, v := range f.Results() {
		live[v.ID()] = true
	}
	nodes := f.Nodes()
	keep, trims := make([]bool, len(nodes)), make([]*trim, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		for _, v := range nodes[i].Out() {
			keep[i] = keep[i] || live[v.ID()]
		}
		if !keep[i] {
			continue
		}
		needed := nodes[i].In()
		if trims[i] = trimmed(nodes[i], live); trims[i] != nil {
			needed = trims[i].operands(needed)
		}
		for _, v := range needed {
			live[v.ID()] = true
		}
	}
	next := 0
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		next++
		if !keep[next-1] {
			return make([]*ir.Value, len(n.Out()))
		}
		if t := trims[next-1]; t != nil {
			return t.apply(b, n, in)
		}
		return b.Apply(n.Op(), in)
	})
}

// trim is an op with fewer results or operands that replaces a node.
type trim struct {
	op      op.Op
	out, in []int
}

// trimmed returns an op that computes only the used results of a node; nil if the node is kept.
func trimmed(n *ir.Node, live []bool) *trim {
	o, ok := n.Op().(op.Trimmer)
	if !ok {
		return nil
	}
	used := make([]bool, len(n.Out()))
	for i, v := range n.Out() {
		used[i] = live[v.ID()]
	}
	less, out, in := o.Trim(ir.TypesOf(n.In()), used)
	if less == nil {
		return nil
	}
	return &trim{less, out, in}
}

func (t *trim) operands(all []*ir.Value) []*ir.Value {
	list := make([]*ir.Value, len(t.in))
	for i, at := range t.in {
		list[i] = all[at]
	}
	return list
}

// apply returns the node's results, with nil for those that were removed.
func (t *trim) apply(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	out := make([]*ir.Value, len(n.Out()))
	for i, v := range b.Apply(t.op, t.operands(in)) {
		out[t.out[i]] = v
	}
	return out
}
