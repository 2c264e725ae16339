package stage

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// ownGradients gives each weight a separate gradient value: one value may be the gradient of several weights,
// such as two biases that are added, or have other uses, but each gradient has its own layout and memory.
func (b *stageBuilder) ownGradients(joint *ir.Func) (*ir.Func, error) {
	uses := make([]int, joint.NumValues())
	for _, n := range joint.Nodes() {
		for _, v := range n.In() {
			uses[v.ID()]++
		}
	}
	for _, v := range joint.Results() {
		uses[v.ID()]++
	}
	names := map[*ir.Node]string{}
	for j, v := range joint.Results()[len(joint.Results())-len(b.out.Weights):] {
		if g := v.Node().In()[1]; g.Node() == nil || uses[g.ID()] > 1 {
			names[v.Node()] = b.s.f.Params()[b.out.Weights[j]].Name() + ".grad"
		}
	}
	if len(names) == 0 {
		return joint, nil
	}
	return joint.Rewrite(func(to *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		if name, ok := names[n]; ok {
			in = slices.Clone(in)
			in[1] = op.Mark(in[1], name)
		}
		return to.Apply(n.Op(), in)
	})
}
