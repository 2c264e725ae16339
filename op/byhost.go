package op

import (
	"slices"

	"github.com/galley-ml/galley/mesh"
)

// Hierarchic is implemented by collectives that can run in two steps: within hosts, whose devices differ
// along inner axes, and between hosts, along outer axes. Sums are trees over the devices of a group, so the
// bits are the same if the number of a group's devices per host is a power of two; otherwise the rounding
// differs. Sums in 16 bits, which would be rounded between the steps, run in one step.
type Hierarchic interface {
	Collective
	// ByHost returns the results for operands; ok is false if the sizes do not divide.
	ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) (y []*Tensor, ok bool)
}

// Relay is implemented by collectives whose data, in two steps, passes through another device of its host.
// This sends fewer messages between hosts but as many bytes, so it pays only while latency dominates.
type Relay interface {
	Hierarchic
	Relays()
}

// ByHost reduce-scatters within hosts, all-reduces the parts between hosts, and all-gathers within hosts.
func (o allReduce) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	x := in[0]
	n := m.Count(inner)
	if o.Async || x.DType().IsHalf() || o.Kind == "mean" || x.Shape().Len()%n != 0 || x.Shape().Len() == 0 {
		return nil, false
	}
	text := m.String()
	y := apply1(reduceScatter{Mesh: text, Axes: inner.String(), Kind: o.Kind}, Reshape(x, x.Shape().Len()))
	y = apply1(allReduce{Mesh: text, Axes: outer.String(), Kind: o.Kind}, y)
	return []*Tensor{Reshape(apply1(allGather{Mesh: text, Axes: inner.String()}, y), x.Shape()...)}, true
}

// ByHost gathers between hosts first, while parts are small, then within hosts.
func (o allGather) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	x := in[0]
	if o.Async || even(o.Sizes) != nil || x.Shape().Len() == 0 {
		return nil, false
	}
	text, k, n := m.String(), m.Count(outer), m.Count(inner)
	y := apply1(allGather{Mesh: text, Axes: outer.String()}, Reshape(x, 1, x.Shape().Len()))
	y = apply1(allGather{Mesh: text, Axes: inner.String()}, Unsqueeze(y, 0)) // inner, outer, elements
	shape := withDim(x.Type(), o.Dim, k*n*x.Dim(o.Dim)).Shape
	y = Reshape(Transpose(y, 1, 0, 2), append([]int{k * n}, x.Shape()...)...)
	return []*Tensor{Reshape(inward(y, o.Dim), shape...)}, true
}

// ByHost reduce-scatters within hosts first, then between hosts.
func (o reduceScatter) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	x := in[0]
	if o.Async || even(o.Sizes) != nil || x.DType().IsHalf() || o.Kind == "mean" || x.Shape().Len() == 0 {
		return nil, false
	}
	text, k, n := m.String(), m.Count(outer), m.Count(inner)
	each := x.Shape().Len() / (k * n)
	y := Reshape(outward(parted(x, o.Dim, k*n), o.Dim), k, n, each)
	y = apply1(reduceScatter{Mesh: text, Axes: inner.String(), Kind: o.Kind}, Transpose(y, 1, 0, 2))
	y = apply1(reduceScatter{Mesh: text, Axes: outer.String(), Kind: o.Kind}, Reshape(y, k, each))
	return []*Tensor{Reshape(y, withDim(x.Type(), o.Dim, x.Dim(o.Dim)/(k*n)).Shape...)}, true
}

// Hosts splits the axes of a collective, for hosts of the given number of consecutive devices: into those
// along which a group spans hosts, and those within one host. ok is false if one of the two is empty.
func Hosts(m *mesh.Mesh, axes mesh.Axes, host int) (outer, inner mesh.Axes, ok bool) {
	within := func(a mesh.Axes) bool {
		groups, err := m.GroupsOver(a)
		return err == nil && !slices.ContainsFunc(groups, func(g []int) bool {
			return slices.ContainsFunc(g, func(d int) bool { return d/host != g[0]/host })
		})
	}
	if host < 1 || within(axes) {
		return nil, nil, false
	}
	for i, x := range slices.Backward(axes) {
		if next := append(mesh.Axes{x}, inner...); within(next) {
			inner = next
			continue
		}
		outer = slices.Clone(axes[:i+1])
		n := m.Extent(x)
		for k := n - 1; k > 1; k-- { // the largest factor of the axis that stays within a host
			major, minor, can := m.Cut(x, n/k)
			if next := append(mesh.Axes{minor}, inner...); n%k == 0 && can && within(next) {
				outer[i], inner = major, next
				break
			}
		}
		break
	}
	return outer, inner, len(inner) > 0 && m.Count(inner) > 1
}

// CrossesHosts reports whether some group of a collective spans several hosts.
func CrossesHosts(o Collective, host int) bool {
	t, err := newTeam(o.Over())
	if err != nil || host < 1 {
		return false
	}
	groups, err := t.mesh.GroupsOver(t.axes)
	return err == nil && slices.ContainsFunc(groups, func(g []int) bool {
		return slices.ContainsFunc(g, func(d int) bool { return d/host != g[0]/host })
	})
}

// Messages returns the number of messages that a device sends to other hosts: in one step, and in two.
func Messages(o Relay, host int) (once, twice int) {
	t, err := newTeam(o.Over())
	if err != nil {
		return 0, 0
	}
	outer, inner, ok := Hosts(t.mesh, t.axes, host)
	if !ok {
		return 0, 0
	}
	twice = t.mesh.Count(outer) - 1
	return twice * t.mesh.Count(inner), twice
}

// ByHosts returns the results of a collective in two steps; ok is false if it has to run in one.
func ByHosts(o Hierarchic, host int, in []*Tensor) ([]*Tensor, bool) {
	t, err := newTeam(o.Over())
	if err != nil {
		return nil, false
	}
	outer, inner, ok := Hosts(t.mesh, t.axes, host)
	if !ok {
		return nil, false
	}
	return o.ByHost(t.mesh, outer, inner, in)
}
