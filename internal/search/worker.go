package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// worker prices strategies for one goroutine.
type worker struct {
	s      *search
	p      Pricer
	priced int
	open   []Plan // of the cell that is visited
}

// least returns a lower bound of a strategy's cost, with its memory; ok is false if the cost model rejects
// it.
func (w *worker) least(x strategy.Strategy, r relief) (Plan, bool) {
	x.Recompute, x.Offload = r.recompute, r.offload
	if allow := w.s.c.Allow; allow != nil && !allow(x) {
		return Plan{}, false
	}
	w.priced++
	e, err := w.p.Least(x)
	return Plan{x, e}, err == nil && !math.IsInf(e.Step, 1) // no link between some devices
}

// priceBetter prices a strategy that may be good enough, and keeps it if it is and fits; ok is false if it
// was not priced.
func (w *worker) priceBetter(p Plan, f family) (priced Plan, ok bool) {
	if p.Estimate.Step > w.s.limit(f) {
		return Plan{}, false
	}
	w.priced++
	e, err := w.p.Exact(p.Strategy)
	if err != nil {
		return Plan{}, false
	}
	if e.Fits && e.Step <= w.s.limit(f) {
		w.s.keep(Plan{p.Strategy, e})
	}
	return Plan{p.Strategy, e}, true
}

// visit prices the choices of a cell: first as if memory did not matter, then, the fastest first, with as
// much relief as it takes to fit. So limits tighten early, and most need no relief.
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

// usual tries a cell with optimizer state or all state sharded, and with no or full recomputation.
func (w *worker) usual(x strategy.Strategy, f family) {
	orders := w.s.space.orders(x)
	if len(orders) == 0 || w.s.c.Pin.has("layers") {
		return
	}
	o := orders[len(orders)-1]
	x.VPP, x.Schedule = o.vpp, o.schedule
	for _, z := range w.s.space.shares(x) {
		x.Zero, x.Shard = z.zero, z.shard
		lines := w.s.space.reliefs(x)
		if z.shard > 0 || len(lines) == 0 {
			continue
		}
		for _, r := range []relief{lines[0][0], lines[0][len(lines[0])-1]} {
			if p, ok := w.least(x, r); ok && p.Estimate.Fits {
				w.priceBetter(p, f)
				break
			}
		}
	}
}

// share bounds every sharding of a strategy's state, as if memory did not matter. The time of one of them
// before its tail is a lower bound of all: if that is too long, the others need not be priced.
func (w *worker) share(x strategy.Strategy, f family) {
	for i, z := range w.s.space.shares(x) {
		x.Zero, x.Shard = z.zero, z.shard
		lines := w.s.space.reliefs(x)
		if len(lines) == 0 {
			continue
		}
		p, ok := w.least(x, lines[0][0])
		if !ok {
			continue
		}
		limit := w.s.limit(f)
		if p.Estimate.Step <= limit && !hopeless(p.Estimate) {
			w.open = append(w.open, p)
		}
		if parts := p.Estimate.Parts; i == 0 && p.Estimate.Step-parts.DP-parts.Optimizer-parts.Offload > limit {
			return
		}
	}
}

// relieve finds the cheapest relief of memory with which a strategy fits. Relief only costs time, and along a
// line memory only decreases from its second entry on, so the first one that fits is the best of its line.
func (w *worker) relieve(first Plan, f family) {
	x := first.Strategy
	lines := w.s.space.reliefs(x)
	if first.Estimate.Fits && w.descend(x, first, lines[0], 0, f) {
		return
	}
	first.Estimate.Fits = false
	// whether full recomputation, with as much offloaded as is compatible with it, is enough: not known yet
	deepest := -1
	for i, line := range lines {
		at, p := 0, first
		switch {
		case i == 0:
		case !room(first.Estimate, x, line[0]):
			p.Estimate.Fits = false // no need to price it
		default:
			var ok bool
			if p, ok = w.least(x, line[0]); !ok || p.Estimate.Step > w.s.limit(f) {
				continue
			}
		}
		if !p.Estimate.Fits {
			if len(line) == 1 {
				continue
			}
			if deepest < 0 {
				deepest = w.enough(x, lines)
			}
			if deepest == 0 {
				continue
			}
			if p, at = w.along(x, line); at == 0 {
				continue
			}
		}
		w.descend(x, p, line, at, f)
	}
}

// descend settles a strategy with the relief at an index of a line or, if the simulated schedule holds more
// than expected, with the next one that fits. It reports whether one does, or that none is fast enough.
func (w *worker) descend(x strategy.Strategy, p Plan, line []relief, at int, f family) bool {
	for {
		priced, ok := w.priceBetter(p, f)
		if !ok {
			return true
		}
		if priced.Estimate.Fits {
			w.longer(p, priced, line[at:], f)
			return true
		}
		for ok = false; !ok; {
			if at++; at >= len(line) {
				return false
			}
			p, ok = w.least(x, line[at])
			ok = ok && p.Estimate.Fits
		}
	}
}

// room reports whether a strategy that was priced without relief fits with something offloaded: what is in
// the host's memory is gone from the device's, with its share of slack. It also returns true if the strategy
// was priced otherwise.
func room(e plan.Estimate, x strategy.Strategy, r relief) bool {
	if x.Offload != (strategy.Offload{}) || x.Recompute != "" {
		return true
	}
	for i := range e.Stages {
		m := &e.Stages[i].Memory
		gone := r.offload.Optimizer*m.Optimizer + r.offload.Activations*m.Activations
		if m.Total()-(1+m.Slack/m.Allocated())*gone > e.Stages[i].Limit*(1+1e-12) {
			return false
		}
	}
	return true
}

// enough returns 1 if a strategy fits with full recomputation and as much offloaded as is compatible with it,
// else 0.
func (w *worker) enough(x strategy.Strategy, lines [][]relief) int {
	for i := len(lines) - 1; i >= 0; i-- {
		line := lines[i]
		if len(line) == 1 {
			continue
		}
		if p, ok := w.least(x, line[len(line)-1]); ok && p.Estimate.Fits {
			return 1
		}
		return 0
	}
	return 0
}

// longer tries recomputation although there is enough memory: if communication is much slower than
// computation, longer passes may hide more of it than they cost. If full recomputation does not pay, partial
// recomputation does not either.
func (w *worker) longer(first, priced Plan, line []relief, f family) {
	if priced.Estimate.Parts.DP+priced.Estimate.Parts.Bubble == 0 || len(line) == 1 {
		return
	}
	last, ok := w.least(first.Strategy, line[len(line)-1])
	if !ok || last.Estimate.Step >= priced.Estimate.Step || last.Estimate.Step > w.s.limit(f) {
		return
	}
	if all, ok := w.priceBetter(last, f); !ok || all.Estimate.Step >= priced.Estimate.Step {
		return
	}
	for _, r := range line[1 : len(line)-1] {
		if p, ok := w.least(first.Strategy, r); ok && p.Estimate.Fits {
			w.priceBetter(p, f)
		}
	}
}

// hopeless reports whether a strategy does not fit even without the optimizer's state and all activations: no
// relief goes further.
func hopeless(e plan.Estimate) bool {
	for i := range e.Stages {
		m := &e.Stages[i].Memory
		slack := m.Slack / m.Allocated()
		if m.Total()-(1+slack)*(m.Optimizer+m.Activations) > e.Stages[i].Limit*(1+1e-12) {
			return true
		}
	}
	return false
}

// along finds the first relief of a line that fits, by bisection, and its index; 0 means none, because the
// first one is known not to fit.
func (w *worker) along(x strategy.Strategy, line []relief) (Plan, int) {
	if len(line) == 1 {
		return Plan{}, 0
	}
	best, ok := w.least(x, line[len(line)-1])
	if !ok || !best.Estimate.Fits {
		return Plan{}, 0
	}
	low, high := 0, len(line)-1 // low does not fit, high does
	for high-low > 1 {
		mid := (low + high) / 2
		p, ok := w.least(x, line[mid])
		if ok && p.Estimate.Fits {
			best, high = p, mid
		} else {
			low = mid
		}
	}
	return best, high
}
