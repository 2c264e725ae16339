package shard

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// ref is an axis or a part of one by number, because inference compares them too often for names. A whole
// axis has pre 1.
type ref struct {
	axis      int16
	pre, size int32
}

// end returns where the part ends, seen as pre × size × rest.
func (r ref) end() int32 { return r.pre * r.size }

// contains reports whether all of o is in r.
func (r ref) contains(o ref) bool { return r.axis == o.axis && r.pre <= o.pre && o.end() <= r.end() }

// begins reports whether r is o or a major part of it.
func (r ref) begins(o ref) bool { return r.axis == o.axis && r.pre == o.pre && o.size%r.size == 0 }

// without returns the major part of r that o leaves free, if any.
func (r ref) without(o ref) (ref, bool) {
	if r.axis != o.axis {
		return r, true
	}
	if r.pre >= o.end() && r.pre%o.end() == 0 || r.end() <= o.pre && o.pre%r.end() == 0 {
		return r, r != o
	}
	if r.pre >= o.pre || o.pre%r.pre != 0 || r.end()%o.pre != 0 {
		return ref{}, false
	}
	return ref{r.axis, r.pre, o.pre / r.pre}, true
}

// clear returns the major part of r that a list leaves free, if any.
func (r ref) clear(list refs) (ref, bool) {
	for _, o := range list {
		var ok bool
		if r, ok = r.without(o); !ok {
			return r, false
		}
	}
	return r, true
}

// refs is an ordered list of axes, major first.
type refs []ref

// count returns the number of pieces into which the list splits.
func (a refs) count() int {
	n := 1
	for _, r := range a {
		n *= int(r.size)
	}
	return n
}

// common returns the longest common prefix; an axis and a major part of it have that part in common.
func common(a, b refs) refs {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) {
		return a
	}
	if i == len(b) {
		return b
	}
	x, y := a[i], b[i]
	switch {
	case x.begins(y):
		return common2(a, i, x, a[i+1:], rest(y, x), b[i+1:])
	case y.begins(x):
		return common2(b, i, y, b[i+1:], rest(x, y), a[i+1:])
	}
	return a[:i:i]
}

// rest returns what is left of y below its major part x.
func rest(y, x ref) ref { return ref{y.axis, x.end(), y.size / x.size} }

// common2 continues if one list has an axis, x, and the other has more of it, left.
func common2(a refs, i int, x ref, tail refs, left ref, other refs) refs {
	more := common(tail, append(refs{left}, other...))
	if len(more) == 0 {
		return a[: i+1 : i+1]
	}
	return append(a[:i+1:i+1], more...)
}

// hasPrefix reports whether a begins with all of p.
func hasPrefix(a, p refs) bool {
	if len(p) <= len(a) && slices.Equal(a[:len(p)], p) {
		return true
	}
	if len(p) == 0 || len(a) == 0 {
		return len(p) == 0
	}
	c := common(a, p)
	return c.count() == p.count() && len(c) >= len(p)
}

// joined returns the list with adjacent parts of an axis merged, for a dim of n elements. If the axes do not
// divide it, splitting by the parts one after the other differs from splitting by the whole.
func (a refs) joined(n int) refs {
	if n%a.count() != 0 {
		return a
	}
	var list refs
	for _, r := range a {
		if k := len(list); k > 0 && list[k-1].axis == r.axis && list[k-1].end() == r.pre && list[k-1].size > 1 {
			list[k-1].size *= r.size
		} else {
			list = append(list, r)
		}
	}
	return list
}

// grid is a mesh with its axes numbered.
type grid struct {
	mesh *mesh.Mesh
	axes []mesh.Axis
}

func newGrid(m *mesh.Mesh) *grid { return &grid{mesh: m, axes: m.Axes()} }

// refs returns axes by number; they must be axes of the mesh.
func (g *grid) refs(a mesh.Axes) refs {
	var list refs
	for _, s := range a {
		i := slices.IndexFunc(g.axes, func(x mesh.Axis) bool { return x.Name == s.Axis })
		r := ref{int16(i), 1, int32(g.axes[i].Size)}
		if s.Size != 0 {
			r.pre, r.size = int32(s.Pre), int32(s.Size)
		}
		list = append(list, r)
	}
	return list
}

// names returns the list as axes by name.
func (g *grid) names(a refs) mesh.Axes {
	var list mesh.Axes
	for _, r := range a {
		s := mesh.Sub{Axis: g.axes[r.axis].Name}
		if r.pre != 1 || int(r.size) != g.axes[r.axis].Size {
			s.Pre, s.Size = int(r.pre), int(r.size)
		}
		list = append(list, s)
	}
	return list
}
