package mesh

import (
	"fmt"
	"iter"
	"slices"
)

// Layout is a Spec applied to a tensor of one shape on one mesh, and checked.
//
// The axes of a dim apply one after the other, the major one first, each to the piece that the previous one
// left. So gathering over the last axis of a dim gives exactly the layout without that axis, also if sizes
// are uneven.
type Layout struct {
	mesh  *Mesh
	spec  Spec
	shape []int
	dims  []cuts
}

// cuts describes one dim of a layout: how to extract a device's position along it, and the range of each
// position.
type cuts struct {
	digits []digit
	parts  []Range
}

func (c *cuts) position(index int) int {
	p := 0
	for _, d := range c.digits {
		p = p*d.mod + d.of(index)
	}
	return p
}

// Layout returns the layout of a tensor of a shape on a mesh.
func (s Spec) Layout(m *Mesh, shape []int) (*Layout, error) {
	if err := s.Check(m, len(shape)); err != nil {
		return nil, err
	}
	l := &Layout{mesh: m, spec: s.With(s.Partial...), shape: slices.Clone(shape), dims: make([]cuts, len(shape))}
	for d, n := range shape {
		if n < 0 {
			return nil, fmt.Errorf("spec %s: shape %v: got dim %d of size %d, want at least 0", s, shape, d, n)
		}
		l.dims[d] = cuts{m.digits(s.Dims[d]), m.ranges(s.Dims[d], n)}
	}
	return l, nil
}

// ranges returns the range of n elements at each position along the axes, the last axis fastest.
func (m *Mesh) ranges(a Axes, n int) []Range {
	parts := []Range{{0, n}}
	for _, s := range a {
		k := m.Extent(s)
		next := make([]Range, 0, len(parts)*k)
		for _, r := range parts {
			for i := range k {
				c := Chunk(r.Size, k, i)
				next = append(next, Range{r.Start + c.Start, c.Size})
			}
		}
		parts = next
	}
	return parts
}

// Mesh returns the mesh of the layout.
func (l *Layout) Mesh() *Mesh { return l.mesh }

// Spec returns the Spec of the layout.
func (l *Layout) Spec() Spec { return l.spec.Clone() }

// Shape returns the shape of the whole tensor.
func (l *Layout) Shape() []int { return slices.Clone(l.shape) }

// Box returns the part of the tensor that a device holds. A device outside the mesh has none, not even an
// empty one.
func (l *Layout) Box(device int) (Box, bool) {
	i, ok := l.mesh.Index(device)
	if !ok {
		return Box{}, false
	}
	return l.box(i), true
}

func (l *Layout) box(index int) Box {
	b := Box{make([]int, len(l.dims)), make([]int, len(l.dims))}
	for d := range l.dims {
		r := l.dims[d].parts[l.dims[d].position(index)]
		b.Start[d], b.Size[d] = r.Start, r.Size
	}
	return b
}

// LocalShape returns the shape of a device's shard.
func (l *Layout) LocalShape(device int) ([]int, bool) {
	b, ok := l.Box(device)
	return b.Size, ok
}

// MaxShape returns the largest local shape: that of position 0 along every axis, because chunks only get
// shorter.
func (l *Layout) MaxShape() []int { return l.box(0).Size }

// Even reports whether all devices hold the same shape.
func (l *Layout) Even() bool {
	for _, c := range l.dims {
		for _, r := range c.parts {
			if r.Size != c.parts[0].Size {
				return false
			}
		}
	}
	return true
}

// Boxes returns every device of the mesh, in its order, with its box.
func (l *Layout) Boxes() iter.Seq2[int, Box] {
	return func(yield func(int, Box) bool) {
		for i := range l.mesh.size {
			if !yield(l.mesh.device(i), l.box(i)) {
				return
			}
		}
	}
}

// Piece is a part of a tensor and the devices that hold it.
type Piece struct {
	Box     Box
	Devices []int
}

// NumPieces returns the number of parts into which the axes split the tensor, including empty ones.
func (l *Layout) NumPieces() int {
	n := 1
	for _, c := range l.dims {
		n *= len(c.parts)
	}
	return n
}

// Pieces returns the nonempty parts of the tensor in row-major order, each with the devices that hold it, in
// mesh order. Together they tile the tensor. Along partial axes the devices of a piece hold different terms
// of it.
func (l *Layout) Pieces() []Piece {
	all := make([]Piece, l.NumPieces())
	for i := range l.mesh.size {
		p := &all[l.piece(i)]
		if p.Devices == nil {
			p.Box = l.box(i)
		}
		p.Devices = append(p.Devices, l.mesh.device(i))
	}
	return slices.DeleteFunc(all, func(p Piece) bool { return p.Box.Empty() })
}

// piece returns the number of the piece that a device holds, by its position along every dim.
func (l *Layout) piece(index int) int {
	n := 0
	for d := range l.dims {
		n = n*len(l.dims[d].parts) + l.dims[d].position(index)
	}
	return n
}

// Replicas returns the groups of devices that hold the same values, each in mesh order: those that differ
// only along axes that neither split a dim nor are partial.
func (l *Layout) Replicas() [][]int {
	groups, err := l.mesh.GroupsOver(l.mesh.Free(l.spec.Used()))
	if err != nil {
		panic("mesh: free axes of a checked spec: " + err.Error())
	}
	return groups
}

// Same reports whether two layouts of one shape on equal meshes give every device the same part and the same
// partial axes, even if the Specs' texts differ: nothing needs to move between them.
func (l *Layout) Same(o *Layout) bool {
	if !slices.Equal(l.shape, o.shape) || !l.mesh.Equal(o.mesh) ||
		!slices.Equal(l.spec.Partial, o.spec.Partial) {
		return false
	}
	if l.spec.Equal(o.spec) {
		return true
	}
	for i := range l.mesh.size {
		if !l.box(i).Equal(o.box(i)) {
			return false
		}
	}
	return true
}
