package mesh

import (
	"fmt"
	"slices"
)

// Slice returns the sub-mesh at one position along an axis, without that axis.
func (m *Mesh) Slice(axis string, position int) (*Mesh, error) {
	a, err := m.need(axis)
	if err != nil {
		return nil, err
	}
	if position < 0 || position >= m.axes[a].Size {
		return nil, fmt.Errorf("mesh %s: slice along %s: got position %d, want 0 to %d", m.axesText(), axis,
			position, m.axes[a].Size-1)
	}
	var devices []int
	for i := range m.size {
		if i/m.strides[a]%m.axes[a].Size == position {
			devices = append(devices, m.device(i))
		}
	}
	return New(slices.Delete(m.Axes(), a, a+1), devices...)
}

// Subs returns the sub-meshes that the axes span, in the order given: one for each position along the other
// axes.
func (m *Mesh) Subs(axes ...string) ([]*Mesh, error) {
	groups, err := m.Groups(axes...)
	if err != nil {
		return nil, err
	}
	var picked []Axis
	for _, name := range axes {
		a, _ := m.lookup(name)
		picked = append(picked, a)
	}
	subs := make([]*Mesh, len(groups))
	for i, g := range groups {
		if subs[i], err = New(picked, g...); err != nil {
			return nil, err
		}
	}
	return subs, nil
}

// Groups returns the devices that communicate along the axes: one group for each position along the other
// axes, with the devices in the order of the given axes, the first one varying slowest.
func (m *Mesh) Groups(axes ...string) ([][]int, error) { return m.GroupsOver(On(axes...)) }

// GroupsOver is like Groups along axes or sub-axes.
func (m *Mesh) GroupsOver(over Axes) ([][]int, error) {
	if err := m.checkAxes(over); err != nil {
		return nil, err
	}
	digits := m.digits(over)
	var groups [][]int
	for i := range m.size {
		if !slices.ContainsFunc(digits, func(d digit) bool { return d.of(i) != 0 }) {
			groups = append(groups, m.group(i, digits))
		}
	}
	return groups, nil
}

// GroupOf returns the group of GroupsOver that contains a device.
func (m *Mesh) GroupOf(device int, over Axes) ([]int, error) {
	i, ok := m.Index(device)
	if !ok {
		return nil, fmt.Errorf("mesh %s: no device %d", m, device)
	}
	if err := m.checkAxes(over); err != nil {
		return nil, err
	}
	digits := m.digits(over)
	for _, d := range digits {
		i -= d.of(i) * d.div
	}
	return m.group(i, digits), nil
}

// group returns the devices reached from index first by counting up the digits, the last one fastest.
func (m *Mesh) group(first int, digits []digit) []int {
	at := []int{first}
	for _, d := range digits {
		next := make([]int, 0, len(at)*d.mod)
		for _, i := range at {
			for k := range d.mod {
				next = append(next, i+k*d.div)
			}
		}
		at = next
	}
	for k, i := range at {
		at[k] = m.device(i)
	}
	return at
}

// Order returns the same devices with the axes in another order; every axis is named once.
func (m *Mesh) Order(axes ...string) (*Mesh, error) {
	if len(axes) != len(m.axes) {
		return nil, fmt.Errorf("mesh %s: order of axes: got %d names, want %d", m.axesText(), len(axes),
			len(m.axes))
	}
	subs, err := m.Subs(axes...)
	if err != nil {
		return nil, err
	}
	return subs[0], nil
}

// Front returns the same devices with one axis moved to the front.
func (m *Mesh) Front(axis string) (*Mesh, error) {
	if _, err := m.need(axis); err != nil {
		return nil, err
	}
	names := []string{axis}
	for _, a := range m.axes {
		if a.Name != axis {
			names = append(names, a.Name)
		}
	}
	return m.Order(names...)
}

// Reshape returns the same devices, in the same row-major order, with other axes.
func (m *Mesh) Reshape(axes ...Axis) (*Mesh, error) {
	r, err := New(axes, m.devices...)
	if err == nil && r.size != m.size {
		err = fmt.Errorf("mesh %s: cannot reshape to %s: got %d devices, want %d", m.axesText(), r.axesText(),
			r.size, m.size)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Merge merges adjacent axes, which are given in mesh order, into one called name.
func (m *Mesh) Merge(name string, axes ...string) (*Mesh, error) {
	if len(axes) == 0 {
		return nil, fmt.Errorf("mesh %s: merge into %s: got no axes, want at least one", m.axesText(), name)
	}
	first, err := m.need(axes[0])
	if err != nil {
		return nil, err
	}
	size := 1
	for i, a := range axes {
		if first+i >= len(m.axes) || m.axes[first+i].Name != a {
			return nil, fmt.Errorf("mesh %s: merge into %s: axes %v are not neighbours: put them in order first",
				m.axesText(), name, axes)
		}
		size *= m.axes[first+i].Size
	}
	return m.Reshape(slices.Replace(m.Axes(), first, first+len(axes), Axis{Name: name, Size: size})...)
}

// Split splits one axis into several, major first, whose sizes multiply to its size.
func (m *Mesh) Split(axis string, parts ...Axis) (*Mesh, error) {
	a, err := m.need(axis)
	if err != nil {
		return nil, err
	}
	size := 1
	for _, p := range parts {
		size *= p.Size
	}
	if size != m.axes[a].Size {
		return nil, fmt.Errorf("mesh %s: split of axis %s: parts %v: got size %d, want %d", m.axesText(), axis,
			parts, size, m.axes[a].Size)
	}
	return m.Reshape(slices.Replace(m.Axes(), a, a+1, parts...)...)
}
