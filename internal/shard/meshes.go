package shard

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// meshes returns the mesh of every value. A value that nothing splits may be replicated on any mesh: it is on
// that of the other results of its op, else on that of the op's operands; a value that is not computed, where
// it is first used; the rest is on the default mesh.
func (p *program) meshes() []*mesh.Mesh {
	list := make([]*mesh.Mesh, p.f.NumValues())
	for v := range list {
		list[v] = p.g.Mesh(v)
	}
	firstOf := func(vs ...*ir.Value) *mesh.Mesh {
		for _, v := range vs {
			if m := list[v.ID()]; m != nil {
				return m
			}
		}
		return nil
	}
	fill := func(m *mesh.Mesh, vs []*ir.Value) {
		for _, v := range vs {
			if list[v.ID()] == nil {
				list[v.ID()] = m
			}
		}
	}
	for _, n := range p.f.Nodes() {
		fill(firstOf(slices.Concat(n.Out(), n.In())...), n.Out())
	}
	for _, n := range slices.Backward(p.f.Nodes()) {
		fill(firstOf(n.Out()...), n.In())
		fill(firstOf(n.Out()...), n.Out())
	}
	for v := range list {
		if list[v] == nil {
			list[v] = p.c.Mesh
		}
	}
	return list
}
