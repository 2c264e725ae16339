package spmd

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// route returns the legs from one layout to another. Between meshes, partial values are reduced and scattered
// on the first mesh, then every device of the second receives the elements that it lacks, each byte once.
func (p *planner) route(t ir.Type, from, to op.Layout) ([]leg, Cost, error) {
	if from.Mesh == to.Mesh {
		moves, cost, err := p.router(from.Mesh).Reshard(t, from.Spec, to.Spec)
		return []leg{{from.Mesh, from.Mesh, moves}}, cost, err
	}
	return across(p.router(from.Mesh), p.router(to.Mesh), t, from, to)
}

// Across returns the route of a tensor from one mesh to another, and its cost.
func Across(t ir.Type, from, to op.Layout, prices Prices) (*Crossing, Cost, error) {
	legs, cost, err := across(NewRouter(from.Mesh, prices), NewRouter(to.Mesh, prices), t, from, to)
	return &Crossing{legs: legs, shape: t.Shape}, cost, err
}

// Crossing is the route of a tensor from one mesh to another.
type Crossing struct {
	legs  []leg
	shape []int
}

// Moves returns all moves, in order.
func (c *Crossing) Moves() []Move {
	var all []Move
	for _, l := range c.legs {
		all = append(all, l.moves...)
	}
	return all
}

// Apply computes a device's shard on the second mesh from its shard x on the first. A device that is in only
// one of the meshes takes, or returns, an array without elements.
func (c *Crossing) Apply(x *ir.Value, device int) *ir.Value {
	for _, l := range c.legs {
		x = l.apply(x, device, c.shape)
	}
	return x
}

func across(a, b *Router, t ir.Type, from, to op.Layout) ([]leg, Cost, error) {
	left, right := a.scattered(t, from.Spec), to.Spec.With()
	if right.IsWhole() && a.m.Covers(b.m) {
		left = right // a gather suffices, and the other mesh then has it
	}
	first, cost, err := a.Reshard(t, from.Spec, left)
	if err != nil {
		return nil, Cost{}, err
	}
	hop, err := a.hop(b, t, left, right)
	if err != nil {
		return nil, Cost{}, err
	}
	last, end, err := b.Reshard(t, right, to.Spec)
	legs := []leg{{a.m, a.m, first}, {a.m, b.m, []Move{hop}}, {b.m, b.m, last}}
	return slices.DeleteFunc(legs,
		func(l leg) bool { return len(l.moves) == 0 }), cost.Plus(hop.Cost).Plus(end), err
}

// scattered returns a Spec without partial axes: they split the longest dim instead, so that nothing is sent
// twice.
func (r *Router) scattered(t ir.Type, s mesh.Spec) mesh.Spec {
	out := s.With()
	if len(t.Shape) == 0 {
		return out
	}
	for _, q := range s.Partial {
		best, most := 0, -1
		for d, n := range t.Shape {
			if k := n / r.m.Count(out.Dims[d]); k > most {
				best, most = d, k
			}
		}
		out.Dims[best] = append(slices.Clip(out.Dims[best]), q.Sub)
	}
	return out
}

// hop returns the move between two meshes. Its cost is that of the busiest device.
func (r *Router) hop(to *Router, t ir.Type, before, after mesh.Spec) (Move, error) {
	from, err := before.Layout(r.m, t.Shape)
	if err != nil {
		return Move{}, err
	}
	target, err := after.Layout(to.m, t.Shape)
	if err != nil {
		return Move{}, err
	}
	transfers, err := mesh.Intersect(from, target)
	if err != nil {
		return Move{}, err
	}
	load := map[[2]int]float64{}
	most, size := 0.0, float64(t.DType.Size())
	for _, x := range transfers {
		if x.Local() {
			continue
		}
		for _, end := range [][2]int{{x.From, 0}, {x.To, 1}} {
			load[end] += size * float64(x.Box.Len())
			most = max(most, load[end])
		}
	}
	move := Move{Kind: Exchange, Axes: r.m.Free(nil), Before: before, After: after, Cost: Cost{Time: localStep}}
	if most > 0 {
		link := r.prices.link(move.Axes)
		move.Cost = Cost{Bytes: most, Collectives: 1, Time: link.Alpha + link.Beta*most}
	}
	return move, nil
}

// apply executes a leg on a device; nil is a value that the device does not hold.
func (l leg) apply(x *ir.Value, device int, shape []int) *ir.Value {
	if l.from == l.to {
		v, ok := newView(l.from, device)
		if !ok || x == nil {
			return x
		}
		return v.apply(x, shape, l.moves)
	}
	if !l.from.Contains(device) && !l.to.Contains(device) {
		return x
	}
	own := make([]int, len(shape))
	if v, ok := newView(l.to, device); ok {
		own = v.shape(shape, l.moves[0].After)
	}
	return op.Transfer(x, shape, op.Layout{Mesh: l.from, Spec: l.moves[0].Before},
		op.Layout{Mesh: l.to, Spec: l.moves[0].After}, own)
}
