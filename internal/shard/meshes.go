package shard

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// meshes returns where every value is. A value that nothing splits may be whole on any mesh: it is where the
// other results of its op do, else where the op's operands are; what nothing computes, where it is first
// used; and what is then left over on the mesh of values of which nothing is said.
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
