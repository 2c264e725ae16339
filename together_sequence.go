package galley

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// columns asks, with sequence parallelism, that what a product makes of a weight which the tensor axis splits, or multiplies it with, is
// split along with it. Nothing else says whether the axis is the sequence's within a layer, too: weights would then be gathered,
// and attention share a sequence in a ring.
func (s *together) columns(p *Program, asked map[int]mesh.Sharding) {
	if !s.h.s.Sequence || len(p.Params()) < len(s.weights) {
		return
	}
	axes := s.h.dataAxes
	split := mesh.Closed(mesh.Split(axes(dataAxis, expertAxis), axes(contextAxis), axes(tensorAxis)))
	weight := make([]int, p.NumValues()) // which weight a value is, counted from 1
	for i := range s.weights {
		weight[p.Params()[i].ID()] = i + 1
	}
	for _, n := range p.Nodes() {
		if in, out := n.In(), n.Out(); len(in) == 1 && len(out) == 1 && in[0].Shape().Equal(out[0].Shape()) {
			weight[out[0].ID()] = weight[in[0].ID()]
			continue
		}
		for k, v := range n.In() {
			if w := weight[v.ID()]; w > 0 {
				for _, x := range alongside(n, k, s.weights[w-1].Use) {
					asked[x.ID()] = split
				}
			}
		}
	}
}

// alongside is the sequences of a node whose last dim goes along with the dim of its operand k that the tensor axis splits.
func alongside(n *ir.Node, k int, use mesh.Spec) []*ir.Value {
	split := slices.IndexFunc(use.Dims, func(a mesh.Axes) bool {
		return slices.ContainsFunc(a, func(x mesh.Sub) bool { return x.Axis == tensorAxis })
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
		if v := slices.Concat(n.In(), n.Out())[i]; v.Node() != nil && len(dims) == 3 && slices.Equal(dims[2], factor) {
			list = append(list, v)
		}
	}
	return list
}
