package step

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// inputLayout returns the mesh and layout in which the stage receives an input from the previous stage: as it
// is first constrained here, or else in the sender's layout, as far as the mesh has the same axes.
func (x *section) inputLayout(c *Config, j int, from op.Layout) op.Layout {
	if x.number > 0 && c.Schedule.Place[x.number-1] == x.rank {
		return from // it stays where it is
	}
	if at, ok := x.constrained(x.inParam(j)); ok {
		return at
	}
	to := op.Layout{Mesh: x.mesh, Spec: mesh.Whole(len(from.Spec.Dims))}
	for d, axes := range from.Spec.Dims {
		if slices.ContainsFunc(axes, func(s mesh.Sub) bool { return !sameAxis(from.Mesh, x.mesh, s.Axis) }) {
			continue
		}
		to.Spec.Dims[d] = axes
	}
	return to
}

// sameAxis reports whether two meshes have an axis of one name and size.
func sameAxis(a, b *mesh.Mesh, name string) bool {
	x, ok := a.Axis(name)
	y, has := b.Axis(name)
	return ok && has && x.Size == y.Size
}

// constrained returns the layout of a parameter's first constraint, if it leaves nothing open.
func (x *section) constrained(param int) (op.Layout, bool) {
	for _, n := range x.Joint.Nodes() {
		c, ok := n.Op().(op.Constrainer)
		if !ok || n.In()[0].ID() != param {
			continue
		}
		m, s, err := c.Constraint()
		closed := !slices.ContainsFunc(s.Freedom, func(f mesh.Freedom) bool { return f.Open })
		if err == nil && closed && len(s.Spec.Partial) == 0 && x.mesh.Covers(m) {
			return op.Layout{Mesh: m, Spec: s.Spec}, true
		}
	}
	return op.Layout{}, false
}

// relocate puts what a stage exchanges with others on the expected meshes: results of the last stage on the
// stage's own mesh, gradients of inputs where the inputs came from, and those of weights where their
// accumulators are.
func (x *section) relocate(c *Config) {
	results := x.Joint.Results()
	if x.number == len(c.Schedule.Place)-1 {
		for _, v := range results[:len(x.Out)] {
			x.put(v.ID(), x.mesh, mesh.Whole(len(v.Shape())))
		}
	}
	if x.Forward {
		return
	}
	for j, r := range x.inGrads() {
		x.put(results[r].ID(), x.meshes[x.inParam(j)], x.specs[x.inParam(j)].With())
	}
	for j, w := range x.Weights {
		l := c.layouts(w, x.rank)
		next := results[x.sumResult(j)]
		for _, id := range []int{x.sumParam(j), next.ID(), next.Node().In()[1].ID()} {
			x.put(id, l.Mesh, l.Sum.With())
		}
	}
}

// put moves a value to a mesh, if it is on another.
func (x *section) put(id int, m *mesh.Mesh, s mesh.Spec) {
	if !x.meshes[id].Equal(m) {
		x.meshes[id], x.specs[id] = m, s
	}
}
