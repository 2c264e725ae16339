package search

import (
	"github.com/galley-ml/galley/internal/plan"
)

// worker prices strategies for one goroutine.
type worker struct {
	s      *search
	p      Pricer
	priced int
}

// price is what a strategy costs; ok is false where the cost model says that it cannot be.
func (w *worker) price(x plan.Strategy) (plan.Estimate, bool) {
	w.priced++
	e, err := w.p.Estimate(x)
	return e, err == nil
}

// bound is the least that a step of a cell takes: all micro-batches, evenly spread over the ranks of a pipeline.
func (w *worker) bound(c plan.Strategy) (float64, bool, error) {
	e, ok := w.price(base(c))
	if !ok {
		return 0, false, nil
	}
	return floor(c, e, w.s.c.Workload.Batch), true, nil
}

// base is the strategy of a cell in which the least is done besides computing.
func base(c plan.Strategy) plan.Strategy {
	c.VPP, c.Schedule, c.Zero, c.Shard, c.Recompute, c.Offload, c.Layers = 1, "", 0, 0, plan.Recompute{}, plan.Offload{}, nil
	return c
}

// floor is the time that a cell's ranks compute, on average: the busiest computes no less.
func floor(c plan.Strategy, e plan.Estimate, batch int) float64 {
	sum := 0.0
	for _, st := range e.Stages {
		sum += st.Forward + st.Backward
	}
	return float64(c.Micros(batch)) * sum / float64(len(e.Stages))
}

// visit prices what a cell leaves open.
func (w *worker) visit(c cell) error {
	f := familyOf(c.strategy)
	for _, o := range w.s.space.orders(c.strategy) {
		x := c.strategy
		x.VPP, x.Schedule = o.vpp, o.schedule
		for _, z := range w.s.space.shares(x) {
			x.Zero, x.Shard = z.zero, z.shard
			w.relieve(x, f)
		}
	}
	return nil
}

// relieve finds the cheapest relief of memory with which a strategy fits. Relief only costs time, and along a line memory only
// falls, so that the first that fits is the best of its line.
func (w *worker) relieve(x plan.Strategy, f family) {
	for _, line := range w.s.space.reliefs(x) {
		first, ok := w.with(x, line[0])
		if !ok || first.Estimate.Step > w.s.limit(f) {
			continue
		}
		if first.Estimate.Fits {
			w.s.keep(first)
			if line[0].offload == (plan.Offload{}) {
				return // every other line costs more
			}
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
