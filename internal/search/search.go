package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Pricer prices strategies; it must be safe for concurrent use. *plan.Estimator implements it.
type Pricer interface {
	Exact(s strategy.Strategy) (plan.Estimate, error)
	// Least returns the same with a lower bound of Step; it takes a tenth of the time.
	Least(s strategy.Strategy) (plan.Estimate, error)
	// Floor returns a lower bound of the seconds of all strategies with the same division of the devices and
	// micro-batch.
	Floor(s strategy.Strategy) (float64, error)
}

// Config configures a search.
type Config struct {
	Workload plan.Workload
	Cluster  *cluster.Cluster
	// Pin must hold for every strategy.
	Pin Pin
	// Allow, if not nil, reports whether a strategy can be run; others are excluded from the space. It is called
	// from many goroutines.
	Allow func(s strategy.Strategy) bool
	// Top is the number of plans to return, each with another division of the devices; 0 means 5.
	Top int
	// Workers is the number of goroutines; 0 means 1.
	Workers int
	// Limit is the maximal number of cells to visit, those with the lowest bounds; the gap then bounds what may
	// be missed. 0 means all that can matter.
	Limit  int
	Pricer Pricer
}

// Plan is a strategy with its price.
type Plan struct {
	Strategy strategy.Strategy
	Estimate plan.Estimate
}

// Result is what was found.
type Result struct {
	// Plans holds the fastest first, one for each division of the devices. It is empty if nothing fits: see
	// Misfit.
	Plans []Plan
	// Bound is a lower bound of the seconds of all strategies of the space. If the search ran to its end, it is
	// the first plan's step, which is then optimal under the cost model.
	Bound float64
	// Cells is the number of divisions, Visited the number of those that had to be visited, Priced the number of
	// priced strategies.
	Cells, Visited, Priced int
}

// Gap returns the largest possible distance of the first plan from the best one, as a fraction of its time.
func (r *Result) Gap() float64 {
	if len(r.Plans) == 0 {
		return 0
	}
	return 1 - r.Bound/r.Plans[0].Estimate.Step
}

// Search finds the fastest strategies that fit.
//
// It is branch and bound. A cell is a division of the devices with its micro-batch; a step in it takes at
// least the time of its micro-batches' computation, evenly spread over the pipeline's ranks, because no
// schedule, sharding, recomputation or offloading reduces that. Cells are visited in the order of that bound,
// lowest first, so that the search ends at the first cell that cannot beat the best plan.
func Search(c Config) (*Result, error) {
	if c.Top == 0 {
		c.Top = 5
	}
	s := &search{c: c, space: newSpace(c.Workload, c.Cluster, c.Pin), found: map[family]Plan{},
		last: math.Inf(1)}
	cells, err := s.bounds()
	if err != nil {
		return nil, err
	}
	if err := s.warm(cells); err != nil {
		return nil, err
	}
	if err := s.visit(cells); err != nil {
		return nil, err
	}
	return s.result(cells), nil
}

// family is the class of plans of which the best one is kept. It does not depend on the context-parallel
// degree, only on whether there is one.
type family struct {
	tp, pp, ep int
	context    bool
}

func familyOf(s strategy.Strategy) family {
	return family{max(1, s.TP), max(1, s.PP), max(1, s.EP), s.CP > 1}
}

// cell is a division with the lower bound of its step.
type cell struct {
	strategy strategy.Strategy
	bound    float64
}

type search struct {
	c     Config
	space *space

	mu      sync.Mutex
	found   map[family]Plan
	last    float64 // the step of the last plan that fits into the result
	priced  int
	visited int
	next    int     // the next cell to visit
	missed  float64 // the lowest bound of a cell that was skipped because of the limit
	err     error
}

// bounds computes the lower bound of each cell, and sorts the cells by it.
func (s *search) bounds() ([]cell, error) {
	list := s.space.cells()
	cells := make([]cell, len(list))
	err := s.each(func(*worker) error {
		for {
			first := s.take() * boundBatch
			if first >= len(list) {
				return nil
			}
			for i := first; i < min(first+boundBatch, len(list)); i++ {
				b, err := s.c.Pricer.Floor(list[i])
				if err != nil {
					b = math.Inf(1)
				}
				cells[i] = cell{list[i], b}
			}
		}
	})
	cells = slices.DeleteFunc(cells, func(c cell) bool { return math.IsInf(c.bound, 1) })
	slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.bound, b.bound) })
	return cells, err
}

// boundBatch is the number of cells that a worker takes at a time: one takes a microsecond.
const boundBatch = 64

// warm prices the usual strategies in the cells of each family with the smallest micro-batch, so that the
// search has plans to beat from the start.
func (s *search) warm(cells []cell) error {
	seen := map[family]bool{}
	var first []cell
	for _, c := range cells {
		if f := familyOf(c.strategy); c.strategy.MicroBatch == 1 && !seen[f] {
			seen[f] = true
			first = append(first, c)
		}
	}
	return s.each(func(w *worker) error {
		for {
			i := s.take()
			if i >= len(first) {
				return nil
			}
			if f := familyOf(first[i].strategy); first[i].bound <= s.limit(f) {
				w.usual(first[i].strategy, f)
			}
		}
	})
}

// take returns the number of the next piece of work.
func (s *search) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}

// each runs work in every worker.
func (s *search) each(work func(w *worker) error) error {
	s.next = 0
	var wg sync.WaitGroup
	for range max(1, s.c.Workers) {
		wg.Go(func() {
			w := &worker{s: s, p: s.c.Pricer}
			err := work(w)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.priced += w.priced
			if s.err == nil {
				s.err = err
			}
		})
	}
	wg.Wait()
	return s.err
}

// visit visits cells until none can matter.
func (s *search) visit(cells []cell) error {
	s.missed = math.Inf(1)
	return s.each(func(w *worker) error {
		for {
			i := s.take()
			if i >= len(cells) {
				return nil
			}
			switch s.worth(i, cells[i]) {
			case stop:
				return nil
			case look:
				if err := w.visit(cells[i]); err != nil {
					return err
				}
			}
		}
	})
}

type verdict int

const (
	look verdict = iota
	skip
	stop
)

// worth reports whether a cell, by its number, can still matter: for the list of plans, and within its own
// family.
func (s *search) worth(i int, c cell) verdict {
	limit := s.limit(familyOf(c.strategy))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.bound > s.last:
		return stop
	case s.c.Limit > 0 && i >= s.c.Limit:
		s.missed = min(s.missed, c.bound)
		return stop
	case c.bound > limit:
		return skip
	}
	s.visited++
	return look
}

// limit returns the step time that a plan of a family must not exceed to be kept.
func (s *search) limit(f family) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.found[f]; ok {
		return min(s.last, p.Estimate.Step)
	}
	return s.last
}

// keep records a plan if it is the best of its family. Of equally fast ones the first by text is kept, so
// that the result does not depend on the order of workers.
func (s *search) keep(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := familyOf(p.Strategy)
	old, ok := s.found[f]
	if ok && !p.before(old) {
		return
	}
	s.found[f] = p
	if len(s.found) >= s.c.Top {
		steps := make([]float64, 0, len(s.found))
		for _, p := range s.found {
			steps = append(steps, p.Estimate.Step)
		}
		slices.Sort(steps)
		s.last = steps[s.c.Top-1]
	}
}

func (p Plan) before(q Plan) bool {
	if p.Estimate.Step != q.Estimate.Step {
		return p.Estimate.Step < q.Estimate.Step
	}
	return p.Strategy.Line() < q.Strategy.Line()
}

func (s *search) result(cells []cell) *Result {
	r := &Result{Cells: len(cells), Visited: s.visited, Priced: s.priced}
	for _, p := range s.found {
		r.Plans = append(r.Plans, p)
	}
	slices.SortFunc(r.Plans, func(a, b Plan) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	r.Plans = r.Plans[:min(len(r.Plans), s.c.Top)]
	if len(r.Plans) > 0 {
		r.Bound = min(r.Plans[0].Estimate.Step, s.missed)
	}
	return r
}

// Check returns an error if the config is invalid.
func (c Config) Check() error {
	if err := c.Workload.Check(); err != nil {
		return err
	}
	if c.Cluster == nil {
		return fmt.Errorf("search: want a cluster")
	}
	return c.Cluster.Check()
}
