package spmd

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Router finds the moves from Spec to Spec on one mesh and caches them. It is not safe for concurrent use.
type Router struct {
	m      *mesh.Mesh
	prices Prices
	memo   map[string]route
}

type route struct {
	moves []Move
	cost  Cost
	err   error
}

// NewRouter makes a Router for a mesh.
func NewRouter(m *mesh.Mesh, prices Prices) *Router {
	return &Router{m: m, prices: prices, memo: map[string]route{}}
}

// Reshard returns the cheapest moves that change the layout of a tensor of a type, with the default prices.
func Reshard(m *mesh.Mesh, t ir.Type, from, to mesh.Spec) ([]Move, Cost, error) {
	return NewRouter(m, Prices{}).Reshard(t, from, to)
}

// Reshard returns the cheapest moves that change the layout of a tensor of a type.
func (r *Router) Reshard(t ir.Type, from, to mesh.Spec) ([]Move, Cost, error) {
	if from.Equal(to) {
		return nil, Cost{}, nil
	}
	key := t.String() + from.String() + to.String()
	found, ok := r.memo[key]
	if !ok {
		found.moves, found.err = r.find(t, from, to)
		found.cost = total(found.moves)
		r.memo[key] = found
	}
	return found.moves, found.cost, found.err
}

func (r *Router) find(t ir.Type, from, to mesh.Spec) ([]Move, error) {
	for _, s := range []mesh.Spec{from, to} {
		if err := s.Check(r.m, len(t.Shape)); err != nil {
			return nil, fmt.Errorf("reshard of %v: %w", t, err)
		}
	}
	if mid, apart := r.between(from, to); apart {
		return r.through(t, from, mid, to)
	}
	plain := newProblem(r.m, t.Shape, t.DType.Size(), r.prices, from, to, asWritten)
	best := r.search(plain)
	if total(best).Collectives > 1 || slices.ContainsFunc(best,
		func(m Move) bool { return m.Kind == AllGather }) {
		// Splitting axes further may help if their sizes differ.
		p := newProblem(r.m, t.Shape, t.DType.Size(), r.prices, from, to, byDivisors)
		if p.atoms > maxFine || p.atoms == plain.atoms {
			return r.orExchange(best, t, from, to)
		}
		if finer := r.search(p); total(finer).Time < total(best).Time {
			best = finer
		}
	}
	return r.orExchange(best, t, from, to)
}

// between returns an intermediate Spec if the two split an axis in incompatible ways, such as thirds and
// halves: from without such axes; apart is whether there are any.
func (r *Router) between(from, to mesh.Spec) (mid mesh.Spec, apart bool) {
	mid = from.Clone()
	for _, a := range r.m.Axes() {
		if chained(a, from, to) {
			continue
		}
		apart = true
		mid.Partial = slices.DeleteFunc(mid.Partial, func(p mesh.Pending) bool { return p.Axis == a.Name })
		for d := range mid.Dims {
			mid.Dims[d] = slices.DeleteFunc(mid.Dims[d], func(s mesh.Sub) bool { return s.Axis == a.Name })
		}
	}
	return mid, apart
}

// through returns the moves to an intermediate Spec and from there on, or point-to-point messages.
func (r *Router) through(t ir.Type, from, mid, to mesh.Spec) ([]Move, error) {
	first, _, err := r.Reshard(t, from, mid)
	if err != nil {
		return nil, err
	}
	second, _, err := r.Reshard(t, mid, to)
	if err != nil {
		return nil, err
	}
	return r.orExchange(slices.Concat(first, second), t, from, to)
}

// orExchange returns the moves, or point-to-point messages as the two layouts overlap if the moves send
// something more than once and cost more.
func (r *Router) orExchange(moves []Move, t ir.Type, from, to mesh.Spec) ([]Move, error) {
	cost := total(moves)
	if r.prices.Plain || cost.Collectives < 2 || len(from.Partial) > 0 || len(to.Partial) > 0 {
		return moves, nil
	}
	before, err := from.Layout(r.m, t.Shape)
	if err != nil {
		return nil, err
	}
	after, err := to.Layout(r.m, t.Shape)
	if err != nil {
		return nil, err
	}
	lack := 0
	for id, want := range after.Boxes() {
		have, _ := before.Box(id)
		n := want.Len()
		if both, ok := want.Intersect(have); ok {
			n -= both.Len()
		}
		lack = max(lack, n)
	}
	x := Move{Kind: Exchange, Axes: from.Used(), Before: from, After: to}
	for _, s := range to.Used() {
		if !r.m.Overlap(s, x.Axes) {
			x.Axes = append(x.Axes, s)
		}
	}
	bytes := float64(lack * t.DType.Size())
	x.Cost = r.prices.price(Exchange, 0, x.Axes, bytes, bytes)
	if x.Cost.Time < cost.Time {
		return []Move{x}, nil
	}
	return moves, nil
}

// maxStates bounds the search, beyond which the plain route is taken, and maxFine the parts into which axes
// are split.
const (
	maxStates = 4000
	maxFine   = 8
)

// search runs A* over states.
func (r *Router) search(p *problem) []Move {
	start := &visit{at: p.from}
	open := queue{start}
	closed := map[string]bool{}
	limit := p.plain(start)
	for n := 1; len(open) > 0 && n < maxStates; n++ {
		v := heap.Pop(&open).(*visit)
		if v.at.equal(p.to) {
			return p.path(v)
		}
		if key := v.at.key(); closed[key] {
			continue
		} else {
			closed[key] = true
		}
		for _, e := range p.edges(v.at) {
			if c := v.cost.Plus(e.cost); c.Time+p.least(e.next) <= limit.cost.Time && !closed[e.next.key()] {
				heap.Push(&open, &visit{at: e.next, by: e, before: v, cost: c, least: c.Time + p.least(e.next),
					seq: n<<16 + len(open)})
			}
		}
	}
	return p.path(limit)
}

// least returns a lower bound on the time from a state to the target: missing elements must be sent, and a
// misplaced axis takes a collective.
func (p *problem) least(s state) float64 {
	busy := len(p.pendingKinds(s)) > 0
	for d := range s.dims {
		if p.prefix(s, d) < len(s.dims[d]) && !slices.ContainsFunc(p.to.partial,
			func(m uint8) bool { return m != 0 }) {
			busy = true
		}
	}
	if !busy {
		return 0
	}
	t := p.link.Alpha
	if len(p.pendingKinds(s)) == 0 {
		t += p.link.Beta * max(0, p.bytes(p.to)-p.bytes(s))
	}
	return t
}

// plain returns the simple route: reduce what should not be partial, gather whatever is misplaced, and slice.
func (p *problem) plain(v *visit) *visit {
	step := func(match func(e edge) bool) bool {
		for _, e := range p.edges(v.at) {
			if match(e) {
				v = &visit{at: e.next, by: e, before: v, cost: v.cost.Plus(e.cost)}
				return true
			}
		}
		return false
	}
	for !v.at.equal(p.to) {
		if !step(func(e edge) bool {
			return e.kind == Slice &&
				p.prefix(e.next, e.dim) == len(e.next.dims[e.dim])
		}) &&
			!step(func(e edge) bool { return e.kind == AllReduce }) &&
			!step(func(e edge) bool { return e.kind == AllGather }) &&
			!step(func(e edge) bool { return e.kind == Mask }) {
			panic(fmt.Sprintf("spmd: no way from %s to %s on %s", p.spec(p.from), p.spec(p.to), p.m))
		}
	}
	return v
}

// path returns the moves that led to a visit.
func (p *problem) path(v *visit) []Move {
	var moves []Move
	for ; v.before != nil; v = v.before {
		e := v.by
		moves = append(moves, Move{Kind: e.kind, Axes: p.moveAxes(e, v.before.at), Dim: e.dim, From: e.from,
			Reduce: e.reduce,
			Before: p.spec(v.before.at), After: p.spec(v.at), Cost: e.cost})
	}
	slices.Reverse(moves)
	return p.merge(moves)
}

// moveAxes returns the axes of an edge: merged if the dims that they split are split evenly.
func (p *problem) moveAxes(e edge, before state) mesh.Axes {
	for _, s := range []state{before, e.next} {
		for _, d := range []int{e.dim, e.from} {
			if d < len(s.dims) && !p.even(s.dims[d], p.shape[d]) {
				return p.axes(e.tokens)
			}
		}
	}
	return p.joinedAxes(e.tokens)
}

// merge merges adjacent slices of one dim, and adjacent masks.
func (p *problem) merge(moves []Move) []Move {
	var out []Move
	for _, m := range moves {
		k := len(out) - 1
		if k >= 0 && out[k].Kind == m.Kind &&
			(m.Kind == Slice && out[k].Dim == m.Dim || m.Kind == Mask && out[k].Reduce == m.Reduce) {
			out[k].Axes, out[k].After = append(slices.Clip(out[k].Axes), m.Axes...), m.After
			continue
		}
		out = append(out, m)
	}
	return out
}

// visit is a state as it was reached.
type visit struct {
	at     state
	by     edge
	before *visit
	cost   Cost
	least  float64 // lower bound of the seconds from the start to the target
	seq    int
}

// queue orders visits by their bound, then by collectives, then by discovery.
type queue []*visit

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.least != b.least:
		return a.least < b.least
	case a.cost.Collectives != b.cost.Collectives:
		return a.cost.Collectives < b.cost.Collectives
	}
	return a.seq < b.seq
}

// Push and Pop implement container/heap.
func (q *queue) Push(x any) { *q = append(*q, x.(*visit)) }

func (q *queue) Pop() any {
	old := *q
	v := old[len(old)-1]
	*q = old[:len(old)-1]
	return v
}
