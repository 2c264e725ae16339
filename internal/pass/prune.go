package pass

import "github.com/galley-ml/galley/internal/ir"

// Prune drops nodes whose results nothing uses. Parameters stay: they are the program's signature.
func Prune(f *ir.Func) (*ir.Func, error) {
	live := make([]bool, f.NumValues())
	for _, v := range f.Results() {
		live[v.ID()] = true
	}
	nodes := f.Nodes()
	keep := make([]bool, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		for _, v := range nodes[i].Out() {
			keep[i] = keep[i] || live[v.ID()]
		}
		if keep[i] {
			for _, v := range nodes[i].In() {
				live[v.ID()] = true
			}
		}
	}
	next := 0
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		next++
		if !keep[next-1] {
			return make([]*ir.Value, len(n.Out()))
		}
		return b.Apply(n.Op(), in)
	})
}
