package search

import (
	"cmp"
	"slices"

	"github.com/galley-ml/galley/internal/plan"
)

// worker prices strategies for one goroutine.
type worker struct {
	s      *search
	p      Pricer
	priced int
	open   []Plan // of the cell that is looked into
}

// price is what a strategy costs; ok is false where the cost model says that it cannot be.
func (w *worker) price(x plan.Strategy) (plan.Estimate, bool) {
	w.priced++
	e, err := w.p.Estimate(x)
	return e, err == nil
}

// visit prices what a cell leaves open: first as if memory were no matter, then, the fastest first, with as much relief as
// it takes to fit. So limits tighten early, and most are never relieved.
func (w *worker) visit(c cell) error {
	f := familyOf(c.strategy)
	w.open = w.open[:0]
	for _, o := range w.s.space.orders(c.strategy) {
		x := c.strategy
		x.VPP, x.Schedule = o.vpp, o.schedule
		for _, x.Layers = range w.cuts(x) {
			w.share(x, f)
		}
	}
	slices.SortStableFunc(w.open, func(a, b Plan) int { return cmp.Compare(a.Estimate.Step, b.Estimate.Step) })
	for _, p := range w.open {
		if p.Estimate.Step > w.s.limit(f) {
			break
		}
		w.relieve(p, f)
	}
	return nil
}

// share prices every sharding of a strategy's state, as if memory were no matter.
func (w *worker) share(x plan.Strategy, f family) {
	for _, z := range w.s.space.shares(x) {
		x.Zero, x.Shard = z.zero, z.shard
		lines := w.s.space.reliefs(x)
		if len(lines) == 0 {
			continue
		}
		if p, ok := w.with(x, lines[0][0]); ok && p.Estimate.Step <= w.s.limit(f) {
			w.open = append(w.open, p)
		}
	}
}

// relieve finds the cheapest relief of memory with which a strategy fits. Relief only costs time, and along a line memory only
// falls, so that the first that fits is the best of its line.
func (w *worker) relieve(first Plan, f family) {
	if first.Estimate.Fits {
		w.s.keep(first)
		return
	}
	x := first.Strategy
	lines := w.s.space.reliefs(x)
	end := lines[len(lines)-1]
	if p, ok := w.with(x, end[len(end)-1]); !ok || !p.Estimate.Fits {
		return // not even all relief together is enough
	}
	for i, line := range lines {
		if i > 0 {
			var ok bool
			if first, ok = w.with(x, line[0]); !ok || first.Estimate.Step > w.s.limit(f) {
				continue
			}
		}
		if first.Estimate.Fits {
			w.s.keep(first)
			continue
		}
		if p, ok := w.along(x, line); ok && p.Estimate.Step <= w.s.limit(f) {
			w.s.keep(p)
		}
	}
}

func (w *worker) with(x plan.Strategy, r relief) (Plan, bool) {
	x.Recompute, x.Offload = r.recompute, r.offload
	e, ok := w.price(x)
	return Plan{x, e}, ok
}

// along finds the first relief of a line that fits, by halving.
func (w *worker) along(x plan.Strategy, line []relief) (Plan, bool) {
	best, ok := w.with(x, line[len(line)-1])
	if !ok || !best.Estimate.Fits {
		return Plan{}, false
	}
	low, high := 0, len(line)-1 // low does not fit, high does
	for high-low > 1 {
		mid := (low + high) / 2
		p, ok := w.with(x, line[mid])
		if ok && p.Estimate.Fits {
			best, high = p, mid
		} else {
			low = mid
		}
	}
	return best, true
}
