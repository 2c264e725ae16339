package shard

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// SequenceParallel is the layout of sequences within a layer whose weights are split by the same axis that
// splits the sequence between layers. Without it, inference might keep the sequence split within the layer:
// weights would then be gathered, and attention would use a ring.
type SequenceParallel struct {
	// Axis is the axis that splits weights; empty requests nothing.
	Axis string
	// Split is the layout of a sequence [batch, tokens, width] whose last dim corresponds to a weight's split
	// one.
	Split mesh.Sharding
}

// Ask adds annotations, by value, of the results of products with a weight, or of their other operands.
// Weights are a program's first parameters; use is each one's layout in computation.
func (c SequenceParallel) Ask(f *ir.Func, use []mesh.Spec, asked map[int]mesh.Sharding) {
	if c.Axis == "" || len(f.Params()) < len(use) {
		return
	}
	weight := make([]int, f.NumValues()) // the weight that a value is, counted from 1
	for i := range use {
		weight[f.Params()[i].ID()] = i + 1
	}
	for _, n := range f.Nodes() {
		if in, out := n.In(), n.Out(); len(in) == 1 && len(out) == 1 && in[0].Shape().Equal(out[0].Shape()) {
			weight[out[0].ID()] = weight[in[0].ID()]
			continue
		}
		for k, v := range n.In() {
			if w := weight[v.ID()]; w > 0 {
				for _, x := range c.alongside(n, k, use[w-1]) {
					asked[x.ID()] = c.Split
				}
			}
		}
	}
}

// alongside returns the sequences of a node whose last dim corresponds to the dim of its operand k that the
// axis splits.
func (c SequenceParallel) alongside(n *ir.Node, k int, use mesh.Spec) []*ir.Value {
	split := slices.IndexFunc(use.Dims, func(a mesh.Axes) bool {
		return slices.ContainsFunc(a, func(x mesh.Sub) bool { return x.Axis == c.Axis })
	})
	var in []ir.Type
	for _, v := range n.In() {
		in = append(in, v.Type())
	}
	o, ok := n.Op().(op.Op)
	if split < 0 || !ok {
		return nil
	}
	rule, err := o.Rule(in).Parse()
	if err != nil || k >= len(rule.In) || split >= len(rule.In[k]) || len(rule.In[k][split]) != 1 {
		return nil
	}
	factor := rule.In[k][split]
	var list []*ir.Value
	for i, dims := range slices.Concat(rule.In, rule.Out) {
		if v := slices.Concat(n.In(), n.Out())[i]; v.Node() != nil && len(dims) == 3 &&
			slices.Equal(dims[2], factor) {
			list = append(list, v)
		}
	}
	return list
}
