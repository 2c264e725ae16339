package spmd

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// view is a mesh from the view of one of its devices.
type view struct {
	m      *mesh.Mesh
	axes   []mesh.Axis
	device int
	coord  []int
}

func newView(m *mesh.Mesh, device int) (view, bool) {
	coord, ok := m.Coord(device)
	return view{m, m.Axes(), device, coord}, ok
}

// position returns the device's position along an axis or a part of one.
func (v view) position(s mesh.Sub) int {
	a := slices.IndexFunc(v.axes, func(a mesh.Axis) bool { return a.Name == s.Axis })
	if s.Size == 0 {
		return v.coord[a]
	}
	return v.coord[a] / (v.axes[a].Size / (s.Pre * s.Size)) % s.Size
}

// part returns the size of the device's part of n elements that axes split.
func (v view) part(n int, axes mesh.Axes) int {
	for _, s := range axes {
		n = mesh.Chunk(n, v.m.Extent(s), v.position(s)).Size
	}
	return n
}

// shape returns the shape of the device's shard of a tensor.
func (v view) shape(shape []int, s mesh.Spec) []int {
	local := make([]int, len(shape))
	for d, n := range shape {
		local[d] = v.part(n, s.Dims[d])
	}
	return local
}

// sizes returns the sizes of the parts of n elements along axes, nil if they are equal, and that of the
// device's own part.
func (v view) sizes(n int, axes mesh.Axes) (sizes []int, own int) {
	sizes = []int{n}
	for _, s := range axes {
		k := v.m.Extent(s)
		next := make([]int, 0, len(sizes)*k)
		for _, part := range sizes {
			for i := range k {
				next = append(next, mesh.Chunk(part, k, i).Size)
			}
		}
		sizes = next
	}
	if n%len(sizes) == 0 {
		return nil, 0
	}
	return sizes, v.part(n, axes)
}

// apply executes the moves on the device's shard of a tensor of a shape.
func (v view) apply(x *ir.Value, shape []int, moves []Move) *ir.Value {
	for _, m := range moves {
		x = v.move(x, shape, m)
	}
	return x
}

func (v view) move(x *ir.Value, shape []int, m Move) *ir.Value {
	switch m.Kind {
	case Slice:
		sizes, own := v.sizes(v.part(shape[m.Dim], m.Before.Dims[m.Dim]), m.Axes)
		return op.ShardSlice(x, v.m, m.Axes, m.Dim, sizes, own)
	case Mask:
		return op.AsPartial(x, v.m, m.Axes, m.Reduce)
	case Pad:
		sizes, _ := v.sizes(v.part(shape[m.Dim], m.After.Dims[m.Dim]), m.Axes)
		if m.Reduce == mesh.Mean {
			return op.ShardPad(op.MulScalar(x, float64(v.m.Count(m.Axes))), v.m, m.Axes, mesh.Sum, m.Dim, sizes)
		}
		return op.ShardPad(x, v.m, m.Axes, m.Reduce, m.Dim, sizes)
	case AllGather:
		sizes, _ := v.sizes(v.part(shape[m.Dim], m.After.Dims[m.Dim]), m.Axes)
		return op.AllGather(x, v.m, m.Axes, m.Dim, sizes)
	case AllToAll:
		e := op.Exchange{Split: m.Dim, Concat: m.From}
		e.Sizes, e.Own = v.sizes(v.part(shape[m.Dim], m.Before.Dims[m.Dim]), m.Axes)
		e.Parts, _ = v.sizes(v.part(shape[m.From], m.After.Dims[m.From]), m.Axes)
		return op.AllToAll(x, v.m, m.Axes, e)
	case ReduceScatter:
		sizes, own := v.sizes(v.part(shape[m.Dim], m.Before.Dims[m.Dim]), m.Axes)
		return op.ReduceScatter(x, v.m, m.Axes, m.Reduce, m.Dim, sizes, own)
	case AllReduce:
		return op.AllReduce(x, v.m, m.Axes, m.Reduce)
	case Permute:
		own := v.shape(shape, m.After)
		if !v.uneven(shape, m.Before) && !v.uneven(shape, m.After) {
			own = nil
		}
		return op.CollectivePermute(x, v.m, m.Before, m.After, own)
	}
	layouts := op.Layout{Mesh: v.m, Spec: m.Before}
	return op.Transfer(x, shape, layouts, op.Layout{Mesh: v.m, Spec: m.After}, v.shape(shape, m.After))
}

// uneven reports whether shards differ in size.
func (v view) uneven(shape []int, s mesh.Spec) bool {
	for d, n := range shape {
		if n%v.m.Count(s.Dims[d]) != 0 {
			return true
		}
	}
	return false
}

// Apply executes moves on a device's shard x of a tensor of a shape.
func Apply(x *ir.Value, m *mesh.Mesh, device int, shape []int, moves []Move) (*ir.Value, error) {
	v, ok := newView(m, device)
	if !ok {
		return nil, fmt.Errorf("reshard: mesh %s has no device %d", m, device)
	}
	y := v.apply(x, shape, moves)
	return y, y.Err()
}
