package mesh

import (
	"fmt"
	"slices"
	"strings"
)

// Sub is a mesh axis or a part of one. A whole axis has Pre and Size zero. A part x:(p)s views axis x as p ×
// s × rest, major first, and is the middle factor: of an axis of size 4, x:(1)2 is the major factor of two
// and x:(2)2 the minor one.
type Sub struct {
	Axis      string
	Pre, Size int
}

// Axes is an ordered list of axes and sub-axes, major first.
type Axes []Sub

// On returns the list of whole axes with these names.
func On(axes ...string) Axes {
	list := make(Axes, len(axes))
	for i, a := range axes {
		list[i] = Sub{Axis: a}
	}
	return list
}

// String returns the name of a whole axis, or the name and the part: tp:(2)4.
func (s Sub) String() string {
	if s.Size == 0 {
		return s.Axis
	}
	return fmt.Sprintf("%s:(%d)%d", s.Axis, s.Pre, s.Size)
}

// String joins the axes by dots; an empty list is an underscore.
func (a Axes) String() string {
	if len(a) == 0 {
		return "_"
	}
	words := make([]string, len(a))
	for i, s := range a {
		words[i] = s.String()
	}
	return strings.Join(words, ".")
}

// Equal reports whether both lists name the same axes in the same order.
func (a Axes) Equal(b Axes) bool { return slices.Equal(a, b) }

// Sub returns the part of an axis with pre positions above it; a part that is all of the axis is the axis
// itself.
func (m *Mesh) Sub(axis string, pre, size int) (Sub, error) {
	a, ok := m.lookup(axis)
	if !ok {
		_, err := m.need(axis)
		return Sub{}, err
	}
	if pre == 1 && size == a.Size {
		return Sub{Axis: axis}, nil
	}
	s := Sub{axis, pre, size}
	return s, m.checkSub(s)
}

func (m *Mesh) checkSub(s Sub) error {
	a, err := m.need(s.Axis)
	if err != nil || s.Pre == 0 && s.Size == 0 {
		return err
	}
	n := m.axes[a].Size
	switch {
	case s.Pre < 1 || s.Size < 2 || s.Pre > n || s.Size > n || n%(s.Pre*s.Size) != 0:
		return fmt.Errorf("mesh %s: sub-axis %s: want a part of size 2 or more that divides %s of size %d",
			m.axesText(), s, s.Axis, n)
	case s.Size == n:
		return fmt.Errorf("mesh %s: sub-axis %s is all of its axis: write %s", m.axesText(), s, s.Axis)
	}
	return nil
}

// checkAxes checks that the axes exist and that no two of them overlap.
func (m *Mesh) checkAxes(a Axes) error {
	return m.checkUse("axes "+a.String(), a, func(int) string { return "is named" })
}

// checkUse is like checkAxes for axes with different uses: user describes the use of the i-th one.
func (m *Mesh) checkUse(what string, a Axes, user func(i int) string) error {
	for i, s := range a {
		if err := m.checkSub(s); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for j, t := range a[:i] {
			if s == t || !m.disjoint(s, t) {
				return fmt.Errorf("%s: %s %s and %s %s: want each part of an axis used at most once", what, t, user(j), s,
					user(i))
			}
		}
	}
	return nil
}

// part returns where a sub-axis begins and its size, also if it is all of its axis. An axis that the mesh
// lacks has size one; Check reports that as an error.
func (m *Mesh) part(s Sub) (pre, size int) {
	if s.Size != 0 {
		return s.Pre, s.Size
	}
	a, _ := m.lookup(s.Axis)
	return 1, max(a.Size, 1)
}

// disjoint reports whether two sub-axes can be used together: of different axes, or one entirely above the
// other in one factorisation of their axis.
func (m *Mesh) disjoint(s, t Sub) bool {
	if s.Axis != t.Axis {
		return true
	}
	above, n := m.part(s)
	below, k := m.part(t)
	if above > below {
		above, n, below = below, k, above
	}
	return below%(above*n) == 0
}

// Overlap reports whether an axis or sub-axis overlaps with one of the list.
func (m *Mesh) Overlap(s Sub, with Axes) bool {
	return slices.ContainsFunc(with, func(t Sub) bool { return s == t || !m.disjoint(s, t) })
}

// Extent returns the size of one axis or sub-axis.
func (m *Mesh) Extent(s Sub) int {
	_, n := m.part(s)
	return n
}

// Count returns the product of the sizes of the axes in a list.
func (m *Mesh) Count(a Axes) int {
	n := 1
	for _, s := range a {
		n *= m.Extent(s)
	}
	return n
}

// dropUnitAxes returns the list without axes of size one, which split nothing.
func (m *Mesh) dropUnitAxes(a Axes) Axes {
	return slices.DeleteFunc(slices.Clone(a), func(s Sub) bool { return m.Extent(s) == 1 })
}

// Cut splits an axis or sub-axis into a major part of size k and the rest below it. It reports whether both
// exist.
func (m *Mesh) Cut(s Sub, k int) (major, minor Sub, ok bool) {
	pre, n := m.part(s)
	if k < 2 || k >= n || n%k != 0 {
		return s, Sub{}, false
	}
	return Sub{s.Axis, pre, k}, Sub{s.Axis, pre * k, n / k}, true
}

// Join merges two adjacent parts of an axis, the major one first. If n elements do not divide evenly,
// splitting by the parts one after the other differs from splitting by the whole: see Spec.Simplify.
func (m *Mesh) Join(major, minor Sub) (Sub, bool) {
	if major.Axis != minor.Axis {
		return Sub{}, false
	}
	p, n := m.part(major)
	q, k := m.part(minor)
	if p*n != q || major.Size == 0 || minor.Size == 0 {
		return Sub{}, false
	}
	if p == 1 && n*k == m.Extent(Sub{Axis: major.Axis}) {
		return Sub{Axis: major.Axis}, true
	}
	return Sub{major.Axis, p, n * k}, true
}

// Common returns the longest common prefix of both lists. An axis and a major part of it have that part in
// common.
func (m *Mesh) Common(a, b Axes) Axes {
	var common Axes
	a, b = slices.Clone(a), slices.Clone(b)
	for len(a) > 0 && len(b) > 0 {
		if a[0] == b[0] {
			common, a, b = append(common, a[0]), a[1:], b[1:]
			continue
		}
		ap, an := m.part(a[0])
		bp, bn := m.part(b[0])
		if a[0].Axis != b[0].Axis || ap != bp {
			return common
		}
		var ok bool
		if an > bn {
			_, a[0], ok = m.Cut(a[0], bn)
			common, b = append(common, b[0]), b[1:]
		} else {
			_, b[0], ok = m.Cut(b[0], an)
			common, a = append(common, a[0]), a[1:]
		}
		if !ok {
			return common[:len(common)-1]
		}
	}
	return common
}

// HasPrefix reports whether the list begins with prefix, taking parts of axes into account.
func (m *Mesh) HasPrefix(a, prefix Axes) bool {
	return m.Count(m.Common(a, prefix)) == m.Count(prefix) && len(m.Common(a, prefix)) >= len(prefix)
}

// Free returns the axes and parts of axes that a list does not use, in mesh order, except for axes of size
// one.
func (m *Mesh) Free(used Axes) Axes {
	var free Axes
	for _, a := range m.axes {
		var parts Axes
		for _, s := range used {
			if s.Axis == a.Name {
				parts = append(parts, s)
			}
		}
		slices.SortFunc(parts, func(s, t Sub) int { return s.Pre - t.Pre })
		end := 1
		for _, s := range parts {
			pre, n := m.part(s)
			free = m.appendPart(free, a, end, pre)
			end = pre * n
		}
		free = m.appendPart(free, a, end, a.Size)
	}
	return free
}

// appendPart adds the part of an axis from pre to end, unless it is empty.
func (m *Mesh) appendPart(list Axes, a Axis, pre, end int) Axes {
	switch {
	case end <= pre:
		return list
	case pre == 1 && end == a.Size:
		return append(list, Sub{Axis: a.Name})
	}
	return append(list, Sub{a.Name, pre, end / pre})
}

// digit extracts a position along a sub-axis from a device's index in the mesh: index / div mod mod.
type digit struct{ div, mod int }

func (d digit) of(index int) int { return index / d.div % d.mod }

// digits returns the digits of a checked list.
func (m *Mesh) digits(a Axes) []digit {
	list := make([]digit, len(a))
	for i, s := range a {
		x := m.axisIndex(s.Axis)
		pre, n := m.part(s)
		list[i] = digit{div: m.strides[x] * (m.axes[x].Size / (pre * n)), mod: n}
	}
	return list
}
