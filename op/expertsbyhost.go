package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// ByHost sends rows within hosts first, to the device at their owner's position, and from there between
// hosts, so that few large messages cross. Rows are not summed or rounded on the way, so the bits are the
// same.
func (o expertsExchange) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	o.Outer, o.Inner = outer.String(), inner.String()
	return ir.Apply(o, in...), true
}

// ByHost is as for the forward op.
func (o expertsExchangeGrad) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	o.Outer, o.Inner = outer.String(), inner.String()
	return ir.Apply(o, in...), true
}

// ByHost sends parts within hosts first, to the device at their destination's position, then between hosts.
func (o allToAll) ByHost(m *mesh.Mesh, outer, inner mesh.Axes, in []*Tensor) ([]*Tensor, bool) {
	x := in[0]
	if even(o.Sizes) != nil || even(o.Parts) != nil || x.Shape().Len() == 0 {
		return nil, false
	}
	text, k, n := m.String(), m.Count(outer), m.Count(inner)
	y := outward(parted(x, o.Split, k*n), o.Split)
	part := y.Shape()[1:]
	each := part.Len()
	y = Reshape(Transpose(Reshape(y, k, n, each), 1, 0, 2), n, 1, k*each)
	y = apply1(allToAll{Mesh: text, Axes: inner.String(), Split: 0, Concat: 1}, y)
	y = Reshape(Transpose(Reshape(y, n, k, each), 1, 0, 2), k, 1, n*each)
	y = apply1(allToAll{Mesh: text, Axes: outer.String(), Split: 0, Concat: 1}, y)
	y = inward(Reshape(y, append([]int{k * n}, part...)...), o.Concat)
	shape := slices.Clone(part)
	shape[o.Concat] *= k * n
	return []*Tensor{Reshape(y, shape...)}, true
}

// Relays declares that data passes through a device of its own host.
func (expertsExchange) Relays()     {}
func (expertsExchangeGrad) Relays() {}
func (allToAll) Relays()            {}

// hostTeam holds the groups of a two-step exchange: the devices of a host, and those at one position in all
// hosts.
type hostTeam struct{ inner, outer *comm.Group }

// hostTeamOf returns nil if the exchange has one step.
func hostTeamOf(env *Env, o expertsExchange) *hostTeam {
	if o.Inner == "" {
		return nil
	}
	along := func(axes string) *comm.Group { return env.group(allToAll{Mesh: o.Mesh, Axes: axes}) }
	return &hostTeam{along(o.Inner), along(o.Outer)}
}

// exchange sends the next sizes[p] rows to device p; flow is the number of rows from each device to each.
func (h *hostTeam) exchange(
	o Collective,
	rows array.Array,
	sizes []int,
	flow func(from, to int) int,
) array.Array {
	k, n := h.outer.Size(), h.inner.Size()
	host, place := h.outer.Pos(), h.inner.Pos()
	// Within the host: for each position the rows for all hosts' devices there.
	order, sends := make([][2]int, 0, k*n), make([]int, n)
	starts := startsOf(sizes)
	for j := range n {
		for b := range k {
			order = append(order, [2]int{starts[b*n+j], sizes[b*n+j]})
			sends[j] += sizes[b*n+j]
		}
	}
	got, _, err := h.inner.AllToAllV(array.Array{}, regrouped(rows, order), sends)
	must(o, err)
	// Between hosts: for each host the rows of all positions of this one.
	var comes []int // by position, then host
	for i := range n {
		for b := range k {
			comes = append(comes, flow(host*n+i, b*n+place))
		}
	}
	order, sends, starts = order[:0], make([]int, k), startsOf(comes)
	for b := range k {
		for i := range n {
			order = append(order, [2]int{starts[i*k+b], comes[i*k+b]})
			sends[b] += comes[i*k+b]
		}
	}
	got, _, err = h.outer.AllToAllV(array.Array{}, regrouped(got, order), sends)
	must(o, err)
	return got
}

// startsOf returns where runs of these sizes begin.
func startsOf(sizes []int) []int {
	starts, at := make([]int, len(sizes)), 0
	for i, n := range sizes {
		starts[i] = at
		at += n
	}
	return starts
}

// regrouped returns runs of rows, each given by start and size, in another order.
func regrouped(x array.Array, runs [][2]int) array.Array {
	y := array.New(x.DType(), x.Shape()...)
	width := x.Shape()[1] * x.DType().Size()
	src, dst := x.Bytes(), y.Bytes()
	for _, r := range runs {
		dst = dst[copy(dst, src[r[0]*width:(r[0]+r[1])*width]):]
	}
	return y
}
