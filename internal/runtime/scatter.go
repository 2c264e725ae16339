package runtime

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// Scatter cuts a whole array into what the devices of a layout hold, by device. Along partial axes the first device has
// the array and the others have what changes nothing.
func Scatter(l *mesh.Layout, a array.Array) (map[int]array.Array, error) {
	parts := map[int]array.Array{}
	for id, box := range l.Boxes() {
		first, err := isFirst(l, id)
		if err != nil {
			return nil, err
		}
		part := array.New(a.DType(), box.Size...)
		copyBox(part, mesh.Box{Start: make([]int, len(box.Size)), Size: box.Size}, a, box)
		for _, p := range l.Spec().Partial {
			if !first[p.Sub] && (p.Reduce == mesh.Sum || p.Reduce == mesh.Prod) {
				fill(part, p.Reduce)
			}
		}
		parts[id] = part
	}
	return parts, nil
}

// isFirst is, for each partial axis, whether a device is the first along it.
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

// fill overwrites a with zeros for a sum, with ones for a product.
func fill(a array.Array, by mesh.Reduce) {
	clear(a.Bytes())
	if by == mesh.Prod {
		for i := range a.Len() {
			a.Set(i, 1)
		}
	}
}

// Gather puts a whole array together from what the devices of a layout hold, combining along partial axes. Copies must
// be equal, bit by bit.
func Gather(l *mesh.Layout, parts map[int]array.Array) (array.Array, error) {
	var whole array.Array
	for _, p := range l.Pieces() {
		for _, id := range p.Devices {
			if part, ok := parts[id]; !ok || !part.Shape().Equal(p.Box.Size) {
				return array.Array{}, fmt.Errorf("gather: device %d: got a part of shape %v, want %v", id, part.Shape(), p.Box.Size)
			}
		}
		if !whole.IsValid() {
			whole = array.New(parts[p.Devices[0]].DType(), l.Shape()...)
		}
		part, err := combine(l, p, parts)
		if err != nil {
			return array.Array{}, err
		}
		copyBox(whole, p.Box, part, mesh.Box{Start: make([]int, len(p.Box.Size)), Size: p.Box.Size})
	}
	if !whole.IsValid() { // nothing but empty parts
		for _, id := range l.Mesh().Devices() {
			return array.New(parts[id].DType(), l.Shape()...), nil
		}
	}
	return whole, nil
}

// combine is one piece, its terms combined; it checks that copies agree.
func combine(l *mesh.Layout, p mesh.Piece, parts map[int]array.Array) (array.Array, error) {
	spec := l.Spec()
	seen := map[string]int{}
	var total array.Array
	count := 0
	for _, id := range p.Devices {
		key, err := termKey(l, spec, id)
		if err != nil {
			return array.Array{}, err
		}
		if twin, ok := seen[key]; ok {
			if string(parts[twin].Bytes()) != string(parts[id].Bytes()) {
				return array.Array{}, fmt.Errorf("gather: devices %d and %d hold different copies of %v", twin, id, p.Box)
			}
			continue
		}
		seen[key] = id
		count++
		if !total.IsValid() {
			total = parts[id].Clone()
			continue
		}
		for i := range total.Len() {
			total.Set(i, fold(spec.Partial[0].Reduce, total.At(i), parts[id].At(i)))
		}
	}
	if len(spec.Partial) > 0 && spec.Partial[0].Reduce == mesh.Mean {
		for i := range total.Len() {
			total.Set(i, total.At(i)/float64(count))
		}
	}
	return total, nil
}

// termKey tells apart the terms of a piece: the device's position along the partial axes.
func termKey(l *mesh.Layout, spec mesh.Spec, id int) (string, error) {
	var axes mesh.Axes
	for _, p := range spec.Partial {
		axes = append(axes, p.Sub)
	}
	g, err := l.Mesh().GroupOf(id, axes)
	if err != nil {
		return "", err
	}
	for i, member := range g {
		if member == id {
			return fmt.Sprint(i), nil
		}
	}
	return "", nil
}

func fold(by mesh.Reduce, a, b float64) float64 {
	switch by {
	case mesh.Max, mesh.Any:
		return max(a, b)
	case mesh.Min, mesh.All:
		return min(a, b)
	case mesh.Prod:
		return a * b
	}
	return a + b
}

// copyBox copies a box of src to a box of dst of the same size.
func copyBox(dst array.Array, to mesh.Box, src array.Array, from mesh.Box) {
	array.CopyBox(dst, to.Start, src, from.Start, to.Size)
}
