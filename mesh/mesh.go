package mesh

import (
	"fmt"
	"iter"
	"slices"
)

// MaxDevices bounds the size of a mesh, so that a typo causes an error and not a huge allocation.
const MaxDevices = 1 << 20

// Axis is one named dimension of a mesh.
type Axis struct {
	Name string
	Size int
}

// Mesh is a named grid of device ids, with any number of axes, the first one major. It is immutable.
type Mesh struct {
	axes []Axis
	// strides is the distance along each axis in devices.
	strides []int
	size    int
	// devices is nil if device i is at index i, as in nearly all large meshes.
	devices []int
	index   map[int]int
}

// New returns a mesh of the given axes. Devices are listed in row-major order; none means 0, 1, 2, ….
func New(axes []Axis, devices ...int) (*Mesh, error) {
	m := &Mesh{axes: slices.Clone(axes), size: 1}
	for i, a := range axes {
		if !isName(a.Name) {
			return nil, fmt.Errorf("mesh: axis name: got %q, want a letter, then letters, digits and underscores",
				a.Name)
		}
		if m.axisIndex(a.Name) != i {
			return nil, fmt.Errorf("mesh: axis %s is named twice: want distinct names", a.Name)
		}
		if a.Size < 1 {
			return nil, fmt.Errorf("mesh: axis %s: got size %d, want at least 1", a.Name, a.Size)
		}
		if a.Size > MaxDevices/m.size {
			return nil, fmt.Errorf("mesh: axis %s of size %d: too many devices: want at most %d", a.Name, a.Size,
				MaxDevices)
		}
		m.size *= a.Size
	}
	m.strides = make([]int, len(axes))
	for i, n := len(axes)-1, 1; i >= 0; i-- {
		m.strides[i] = n
		n *= axes[i].Size
	}
	if err := m.place(devices); err != nil {
		return nil, err
	}
	return m, nil
}

// place sets the grid's device ids.
func (m *Mesh) place(devices []int) error {
	if len(devices) == 0 {
		return nil
	}
	if len(devices) != m.size {
		return fmt.Errorf("mesh %s: got %d devices, want %d", m.axesText(), len(devices), m.size)
	}
	plain := true
	index := make(map[int]int, len(devices))
	for i, d := range devices {
		if d < 0 {
			return fmt.Errorf("mesh %s: device id: got %d, want at least 0", m.axesText(), d)
		}
		if _, ok := index[d]; ok {
			return fmt.Errorf("mesh %s: device %d stands at two places: want each device once", m.axesText(), d)
		}
		index[d] = i
		plain = plain && d == i
	}
	if !plain {
		m.devices, m.index = slices.Clone(devices), index
	}
	return nil
}

// Axes returns the mesh's axes, major first.
func (m *Mesh) Axes() []Axis { return slices.Clone(m.axes) }

// NumAxes returns the number of axes.
func (m *Mesh) NumAxes() int { return len(m.axes) }

// Size returns the number of devices.
func (m *Mesh) Size() int { return m.size }

// Axis finds an axis by name and reports whether there is one.
func (m *Mesh) Axis(name string) (Axis, bool) { return m.lookup(name) }

// Devices returns the device ids in row-major order.
func (m *Mesh) Devices() []int {
	devices := make([]int, m.size)
	for i := range devices {
		devices[i] = m.device(i)
	}
	return devices
}

// Contains reports whether the device is in the mesh.
func (m *Mesh) Contains(device int) bool {
	_, ok := m.Index(device)
	return ok
}

// Covers reports whether every device of o is in the mesh.
func (m *Mesh) Covers(o *Mesh) bool {
	for i := range o.size {
		if !m.Contains(o.device(i)) {
			return false
		}
	}
	return true
}

// Index returns the device's index in row-major order.
func (m *Mesh) Index(device int) (int, bool) {
	if m.index != nil {
		i, ok := m.index[device]
		return i, ok
	}
	return device, 0 <= device && device < m.size
}

// Coord returns the device's position along each axis.
func (m *Mesh) Coord(device int) ([]int, bool) {
	i, ok := m.Index(device)
	if !ok {
		return nil, false
	}
	return m.coord(i), true
}

// At returns the device at a position, with one number for each axis.
func (m *Mesh) At(coord []int) (int, error) {
	if len(coord) != len(m.axes) {
		return 0, fmt.Errorf("mesh %s: position %v: got %d numbers, want %d", m.axesText(), coord, len(coord),
			len(m.axes))
	}
	i := 0
	for a, c := range coord {
		if c < 0 || c >= m.axes[a].Size {
			return 0, fmt.Errorf("mesh %s: position %v: got %d along %s, want 0 to %d",
				m.axesText(), coord, c, m.axes[a].Name, m.axes[a].Size-1)
		}
		i += c * m.strides[a]
	}
	return m.device(i), nil
}

// Coords returns every position, in the order of Devices. The caller may keep each slice.
func (m *Mesh) Coords() iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for i := range m.size {
			if !yield(m.coord(i)) {
				return
			}
		}
	}
}

// Equal reports whether both meshes have the same axes, including names, and the same devices at the same
// positions.
func (m *Mesh) Equal(o *Mesh) bool {
	return m == o || slices.Equal(m.axes, o.axes) && slices.Equal(m.devices, o.devices)
}

func (m *Mesh) device(i int) int {
	if m.devices == nil {
		return i
	}
	return m.devices[i]
}

func (m *Mesh) coord(i int) []int {
	c := make([]int, len(m.axes))
	for a := range c {
		c[a] = i / m.strides[a] % m.axes[a].Size
	}
	return c
}

func (m *Mesh) axisIndex(name string) int {
	return slices.IndexFunc(m.axes, func(a Axis) bool { return a.Name == name })
}

func (m *Mesh) lookup(name string) (Axis, bool) {
	if i := m.axisIndex(name); i >= 0 {
		return m.axes[i], true
	}
	return Axis{}, false
}

// need returns the index of an axis that must exist.
func (m *Mesh) need(name string) (int, error) {
	if i := m.axisIndex(name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("mesh %s: no axis %q", m.axesText(), name)
}
