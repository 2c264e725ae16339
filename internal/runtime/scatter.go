package runtime

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/mesh"
)

// Scatter splits a whole array into the shards of a layout, by device. Along unreduced axes the first device
// gets the array and the others the neutral element of the reduction.
func Scatter(l *mesh.Layout, a array.Array) (map[int]array.Array, error) {
	parts := map[int]array.Array{}
	for id, box := range l.Boxes() {
		part, err := cutPart(l, a, id, box)
		if err != nil {
			return nil, err
		}
		parts[id] = part
	}
	return parts, nil
}

// cutPart returns one device's shard of a whole array.
func cutPart(l *mesh.Layout, a array.Array, id int, box mesh.Box) (array.Array, error) {
	first, err := isFirst(l, id)
	if err != nil {
		return array.Array{}, err
	}
	part := array.New(a.DType(), box.Size...)
	copyBox(part, mesh.Box{Start: make([]int, len(box.Size)), Size: box.Size}, a, box)
	for _, p := range l.Spec().Partial {
		if !first[p.Sub] && (p.Reduce == mesh.Sum || p.Reduce == mesh.Prod) {
			fill(part, p.Reduce)
		}
	}
	return part, nil
}

// isFirst returns for each unreduced axis whether a device is the first along it.
func isFirst(l *mesh.Layout, id int) (map[mesh.Sub]bool, error) {
	first := map[mesh.Sub]bool{}
	for _, p := range l.Spec().Partial {
		g, err := l.Mesh().GroupOf(id, mesh.Axes{p.Sub})
		if err != nil {
			return nil, err
		}
		first[p.Sub] = g[0] == id
	}
	return first, nil
}

// fill fills a with the neutral element: zeros for a sum, ones for a product.
func fill(a array.Array, by mesh.Reduce) {
	clear(a.Bytes())
	if by == mesh.Prod {
		for i := range a.Len() {
			a.Set(i, 1)
		}
	}
}

// Gather assembles a whole array from the shards of a layout, and reduces along unreduced axes. Replicas must
// be equal, bit for bit.
func Gather(l *mesh.Layout, parts map[int]array.Array) (array.Array, error) {
	for id, box := range l.Boxes() {
		if part, ok := parts[id]; !ok || !part.Shape().Equal(box.Size) {
			return array.Array{}, fmt.Errorf("gather: device %d: got a part of %v, want %v", id, part.Shape(),
				box.Size)
		}
	}
	if err := checkCopies(l, parts); err != nil {
		return array.Array{}, err
	}
	whole := array.New(parts[l.Mesh().Devices()[0]].DType(), l.Shape()...)
	levels := levelsOf(l.Spec())
	for _, p := range l.Pieces() {
		part, err := combine(l.Mesh(), levels, p.Devices[0], parts)
		if err != nil {
			return array.Array{}, fmt.Errorf("gather: %w", err)
		}
		copyBox(whole, p.Box, part, mesh.Box{Start: make([]int, len(p.Box.Size)), Size: p.Box.Size})
	}
	return whole, nil
}

// AllGather is like Gather in every process of a world, where parts are the shards of this process's devices:
// a collective of processes.
func AllGather(ctx context.Context, w comm.World, l *mesh.Layout, dtype array.DType,
	parts map[int]array.Array) (array.Array, error) {
	var all []int
	for _, rank := range comm.Leaders(w) {
		all = append(all, w.Owner(rank))
	}
	return GatherTo(ctx, w, l, dtype, parts, all)
}

// GatherTo is like AllGather in some of the processes: the others take part, and get no array. Of several
// replicas a process is sent one, and none if it holds one.
func GatherTo(ctx context.Context, w comm.World, l *mesh.Layout, dtype array.DType, parts map[int]array.Array,
	to []int) (array.Array, error) {
	var list []comm.Part
	held, byDevice := map[int]array.Array{}, maps.Clone(parts)
	groups := l.Replicas()
	for i, group := range groups {
		box, _ := l.Box(group[0])
		held[i] = parts[group[0]]
		list = append(list, comm.Part{Rank: group[0], DType: dtype, Shape: box.Size, To: without(w, to, group)})
	}
	all, err := comm.Share(ctx, w, list, held)
	if err != nil || !slices.Contains(to, w.Process()) {
		return array.Array{}, err
	}
	for i, group := range groups {
		a := all[i]
		if k := slices.IndexFunc(group, func(id int) bool { return comm.IsLocal(w, id) }); k >= 0 {
			a = parts[group[k]]
		}
		for _, id := range group {
			if !comm.IsLocal(w, id) {
				byDevice[id] = a
			}
		}
	}
	return Gather(l, byDevice)
}

// without returns the processes that own no rank of a group.
func without(w comm.World, processes, group []int) []int {
	list := []int{}
	for _, p := range processes {
		if !slices.ContainsFunc(group, func(rank int) bool { return w.Owner(rank) == p }) {
			list = append(list, p)
		}
	}
	return list
}

// checkCopies returns an error if replicas differ.
func checkCopies(l *mesh.Layout, parts map[int]array.Array) error {
	for _, group := range l.Replicas() {
		for _, id := range group[1:] {
			if !bytes.Equal(parts[group[0]].Bytes(), parts[id].Bytes()) {
				box, _ := l.Box(id)
				return fmt.Errorf("gather: devices %d and %d hold different copies of %v", group[0], id, box)
			}
		}
	}
	return nil
}

// level is the axes along which values are unreduced with one reduction.
type level struct {
	by   mesh.Reduce
	axes mesh.Axes
}

// levelsOf returns the unreduced axes of a Spec, in the order in which they are reduced.
func levelsOf(s mesh.Spec) []level {
	var levels []level
	for _, p := range s.Partial {
		i := slices.IndexFunc(levels, func(l level) bool { return l.by == p.Reduce })
		if i < 0 {
			i, levels = len(levels), append(levels, level{by: p.Reduce})
		}
		levels[i].axes = append(levels[i].axes, p.Sub)
	}
	slices.SortStableFunc(levels, func(a, b level) int {
		switch {
		case a.by.Before(b.by):
			return -1
		case b.by.Before(a.by):
			return 1
		}
		return 0
	})
	return levels
}

// combine returns the reduction of the values of the device and those along the axes of all levels: the last
// level is the outermost.
func combine(m *mesh.Mesh, levels []level, device int, parts map[int]array.Array) (array.Array, error) {
	if len(levels) == 0 {
		return parts[device], nil
	}
	last := len(levels) - 1
	group, err := m.GroupOf(device, levels[last].axes)
	if err != nil {
		return array.Array{}, err
	}
	terms := make([]array.Array, len(group))
	for i, id := range group {
		if terms[i], err = combine(m, levels[:last], id, parts); err != nil {
			return array.Array{}, err
		}
	}
	by, err := comm.ParseReduce(levels[last].by.String())
	if err != nil {
		return array.Array{}, err
	}
	return comm.Combine(by, terms)
}

// copyBox copies a box of src to a box of dst of the same size.
func copyBox(dst array.Array, to mesh.Box, src array.Array, from mesh.Box) {
	array.CopyBox(dst, to.Start, src, from.Start, to.Size)
}
