package pass

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
)

// fuser is an op that may be fused with the op that computes its first operand. Fuse returns nil if it is
// not.
type fuser interface {
	Fuse(in []*ir.Value) *ir.Value
}

// Fuse fuses ops that are faster as one, such as a product and its bias. It is for a program that runs
// unchanged on one device: the partition over devices is decided on single ops.
func Fuse(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass("fuse", f)
	uses := countUses(f)
	g, err := f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		if o, ok := n.Op().(fuser); ok && uses[n.In()[0].ID()] == 1 { // otherwise the first op would run twice
			if v := o.Fuse(in); v != nil {
				return []*ir.Value{v}
			}
		}
		return b.Apply(n.Op(), in)
	})
	if err != nil {
		return nil, err
	}
	return Prune(g)
}

// countUses returns how often each value is used as an operand or a result.
func countUses(f *ir.Func) []int {
	uses := make([]int, f.NumValues())
	for _, n := range f.Nodes() {
		for _, v := range n.In() {
			uses[v.ID()]++
		}
	}
	for _, v := range f.Results() {
		uses[v.ID()]++
	}
	return uses
}
