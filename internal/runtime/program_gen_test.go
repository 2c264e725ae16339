package runtime_test

import (
	"math/rand/v2"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// gen writes a random program by calling ops. All that it draws depends on shapes alone, so the same numbers
// give the same program eagerly, traced with annotations, and traced without.
type gen struct {
	rng    *rand.Rand
	dtype  array.DType
	meshes []*mesh.Mesh // the first is that of values of which nothing is said
	live   []item
	// param makes the next parameter, lay moves a tensor to where it is annotated.
	param func(shape array.Shape, at layout) *op.Tensor
	lay   func(x *op.Tensor, at layout) *op.Tensor
}

// are is an annotation; without a mesh it says nothing.
type layout struct {
	mesh     *mesh.Mesh
	sharding mesh.Sharding
}

// item is a tensor and the mesh that it is known to be on, nil for none.
type item struct {
	x  *op.Tensor
	at *mesh.Mesh
}

// run draws parameters and ops, and returns what the program returns.
func (g *gen) run() []*op.Tensor {
	for range 2 {
		g.fresh(g.shape())
	}
	for range 2 + g.rng.IntN(4) {
		g.step()
		if g.rng.IntN(3) == 0 {
			last := &g.live[len(g.live)-1]
			at := g.annotation(last.x)
			last.x, last.at = g.lay(last.x, at), at.mesh
		}
	}
	results := []*op.Tensor{g.live[len(g.live)-1].x}
	for range 2 {
		results = append(results, g.live[g.rng.IntN(len(g.live))].x)
	}
	return results
}

// shape returns small, and sometimes has dims of size one or none.
func (g *gen) shape() array.Shape {
	sizes := []int{2, 3, 4, 5, 6, 4, 6, 1, 7}
	shape := make(array.Shape, 1+g.rng.IntN(3))
	for d := range shape {
		shape[d] = sizes[g.rng.IntN(len(sizes))]
	}
	if g.rng.IntN(40) == 0 {
		shape[g.rng.IntN(len(shape))] = 0
	}
	return shape
}

// fresh returns a new parameter, annotated or not.
func (g *gen) fresh(shape array.Shape) item {
	var at layout
	if g.rng.IntN(4) > 0 {
		at = g.draw(len(shape))
	}
	it := item{g.param(shape, at), at.mesh}
	g.live = append(g.live, it)
	return it
}

func (g *gen) annotation(x *op.Tensor) layout {
	at := g.draw(len(x.Shape()))
	if !x.DType().IsFloat() { // sums of indices and means of them are not for all types
		at.sharding.Spec = at.sharding.Spec.With()
	}
	return at
}

// draw returns a mesh and a Sharding on it: parts of axes in any order, copies, and terms of any reduction.
func (g *gen) draw(rank int) layout {
	m := g.meshes[g.rng.IntN(len(g.meshes))]
	kinds := []mesh.Reduce{mesh.Sum, mesh.Sum, mesh.Mean, mesh.Max, mesh.Min, mesh.Prod}
	s := mesh.Whole(rank)
	for _, a := range m.Axes() {
		for _, part := range g.cut(m, a) {
			switch k := g.rng.IntN(2*rank + 3); {
			case k < 2*rank:
				list := s.Dims[k/2]
				s.Dims[k/2] = slices.Insert(list, g.rng.IntN(len(list)+1), part)
			case k == 2*rank:
				s.Partial = append(s.Partial, mesh.Pending{Sub: part, Reduce: kinds[g.rng.IntN(len(kinds))]})
			}
		}
	}
	at := layout{m, mesh.Closed(s.With(s.Partial...))}
	if g.rng.IntN(2) == 0 {
		at.sharding = mesh.Open(at.sharding.Spec)
	}
	return at
}

// cut returns an axis, or two parts of it.
func (g *gen) cut(m *mesh.Mesh, a mesh.Axis) mesh.Axes {
	whole := mesh.Sub{Axis: a.Name}
	if g.rng.IntN(3) == 0 {
		if major, minor, ok := m.Cut(whole, 2+g.rng.IntN(2)); ok {
			return mesh.Axes{major, minor}
		}
	}
	return mesh.Axes{whole}
}

// pick returns a live float tensor of a rank of at least min.
func (g *gen) pick(min int) item {
	for range 8 {
		it := g.live[g.rng.IntN(len(g.live))]
		if it.x.DType().IsFloat() && len(it.x.Shape()) >= min {
			return it
		}
	}
	shape := g.shape()
	for len(shape) < min {
		shape = append(shape, 1+g.rng.IntN(5))
	}
	return g.fresh(shape)
}

// like returns a tensor of a shape, a live one or a new one, on the mesh of another.
func (g *gen) like(it item, shape array.Shape) item {
	var all []item
	for _, y := range g.live {
		if y.x.DType().IsFloat() && y.x.Shape().Equal(shape) {
			all = append(all, y)
		}
	}
	y := item{}
	if len(all) > 0 && g.rng.IntN(3) > 0 {
		y = all[g.rng.IntN(len(all))]
	} else {
		y = g.fresh(shape)
	}
	return g.meet(it, y)
}

// meet brings y to the mesh of it.
func (g *gen) meet(it, y item) item {
	if it.at == nil || y.at == nil || it.at == y.at {
		return y
	}
	at := g.draw(len(y.x.Shape()))
	for at.mesh != it.at {
		at = g.draw(len(y.x.Shape()))
	}
	if !y.x.DType().IsFloat() {
		at.sharding.Spec = at.sharding.Spec.With()
	}
	return item{g.lay(y.x, at), it.at}
}

// apart returns a tensor of which no two elements are equal but by chance: what orders elements would else
// depend on rounding.
func (g *gen) apart(it item) item {
	y := g.meet(it, g.fresh(it.x.Shape()))
	return item{op.Add(it.x, y.x), at(it, y)}
}

func at(items ...item) *mesh.Mesh {
	for _, it := range items {
		if it.at != nil {
			return it.at
		}
	}
	return nil
}

func (g *gen) keep(m *mesh.Mesh, xs ...*op.Tensor) {
	for _, x := range xs {
		g.live = append(g.live, item{x, m})
	}
}
