package auto

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// Plan is the best candidate that was found.
type Plan struct {
	Candidate
	Price
	// Bound is a lower bound of the step time of all candidates, in seconds: every op that is not fused split in
	// the way that computes least, on the best mesh, without communication.
	Bound float64
	// Shards describes the search of shardings on the plan's mesh; nil if its tensor axis has one device.
	Shards *Shards
	// Others holds the best candidate of each other mesh with its price, the best first.
	Others []Other
	// Priced is the number of candidates that were planned and priced, Meshes the number of their meshes.
	Priced, Meshes int
	machine        Machine
	config         *Config
}

// Shards is the size of the search of shardings, and its result.
type Shards struct {
	Variables, Labels int
	Gap               float64
}

// Other is a candidate that lost.
type Other struct {
	Candidate
	Price
}

// Gap returns the largest possible distance of the plan from the best one, as a fraction of its time.
func (p *Plan) Gap() float64 { return max(0, (p.Seconds-p.Bound)/p.Seconds) }

// finder searches for the best candidate.
type finder struct {
	*pricer
	space  *space
	seeds  *proposer
	best   Other
	others []Other
	shards map[[4]int]*Shards
	plan   *Plan
}

// Find searches for the best candidate. On every mesh that could be better than the best known one it starts
// with data parallelism, with rows split by the tensor axis and with the proposal of package seed, and
// continues from each as long as a single change helps.
func Find(c Config) (p *Plan, err error) {
	defer fault.Recover("search of a plan", &err)
	f, err := newFinder(&c)
	if err != nil {
		return nil, err
	}
	for _, m := range f.space.meshes() {
		f.tryMesh(m)
	}
	f.preferDataParallel()
	return f.done()
}

// preferDataParallel prefers data parallelism over all devices unless the best candidate is faster by more
// than the accuracy of prices, so that the default does not lose to a plan by chance.
func (f *finder) preferDataParallel() {
	m := f.c.Pinned
	m.DP, m.TP, m.PP = f.c.Machine.Devices, 1, 1
	if !f.space.allows(m) || f.space.held || f.space.rows%(m.DP*max(1, m.Micro)) != 0 || f.best.Weights == nil {
		return
	}
	plain := f.space.whole(m)
	p := f.price(plain)
	if f.fits(p) && f.fits(f.best.Price) && p.Seconds*(1-certain) <= f.best.Seconds {
		f.best = Other{plain, p}
	}
}

// certain is how much faster another plan must be than data parallelism, as a fraction of its time: less than
// the error of a calibration on a busy machine, and small enough to keep the plan within 5% of the best.
const certain = 0.045

func newFinder(c *Config) (*finder, error) {
	rows, err := executor.RowsIn(c.Batch)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	if c.Machine.Devices < 1 {
		return nil, fmt.Errorf("auto: %d devices: want 1 or more", c.Machine.Devices)
	}
	f, err := forward(c.Run, c.Batch)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	s := newSpace(c, rows)
	s.statistics = takesStatistics(f)
	if err := s.meshesOf(f); err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	return &finder{
		pricer: &pricer{c: c, known: map[string]Price{}}, space: s, seeds: &proposer{space: s},
		best: Other{
			Price: Price{Err: fmt.Errorf("auto: none of the meshes of %d devices for %q divides a batch of %d rows",
				c.Machine.Devices, c.Pinned.Line(), rows)},
		},
		shards: map[[4]int]*Shards{}, plan: &Plan{machine: c.Machine, config: c},
	}, nil
}

// tryMesh finds the best candidate of a mesh.
func (f *finder) tryMesh(m strategy.Strategy) {
	var found Other
	for _, start := range f.starts(m) {
		if x := f.descend(start); found.Weights == nil || f.better(x.Price, found.Price) {
			found = x
		}
	}
	f.others = append(f.others, found)
	if f.best.Weights == nil || f.better(found.Price, f.best.Price) {
		f.best = found
	}
}

// starts returns the candidates from which the search of a mesh starts.
func (f *finder) starts(m strategy.Strategy) []Candidate {
	list := []Candidate{f.space.whole(m)}
	if m.TP <= 1 {
		return list
	}
	if c, ok := f.space.byRows(m); ok {
		list = append(list, c)
	}
	for _, memory := range f.limits() {
		p, err := f.seeds.propose(m, memory)
		if err != nil {
			continue
		}
		r := p.result
		f.shards[degrees(m)] = &Shards{Variables: r.Variables, Labels: r.Labels, Gap: r.Gap()}
		list = append(list, p.candidate)
	}
	return list
}

// degrees returns the degrees that identify a mesh.
func degrees(m strategy.Strategy) [4]int { return [4]int{m.DP, m.TP, m.PP, m.Branches} }

// limits returns the memory limits of parameters and optimizer state for which shardings are proposed: none,
// and such that a half or a quarter is left for the rest.
func (f *finder) limits() []float64 {
	all := f.c.Machine.Memory
	if all == 0 {
		return []float64{0}
	}
	state := 0.0
	for i, p := range f.c.Run.Params {
		state += float64(p.Type.Bytes())
		for _, t := range f.c.Run.SlotTypes(i) {
			state += float64(t.Bytes())
		}
	}
	if state < all/4 {
		return []float64{0}
	}
	return []float64{0, 0.75 * all, 0.5 * all}
}

// descend applies single changes as long as they help.
func (f *finder) descend(c Candidate) Other {
	best := Other{c, f.price(c)}
	for changed := true; changed && !f.hopeless(best.Price); {
		changed = false
		for _, x := range f.near(best.Candidate) {
			if p := f.price(x); f.better(p, best.Price) {
				best, changed = Other{x, p}, true
			}
		}
	}
	return best
}

// hopeless reports whether a candidate can run but is so much slower than the best that local search from it
// is not worthwhile.
func (f *finder) hopeless(p Price) bool {
	return f.fits(p) && f.fits(f.best.Price) && p.Seconds > muchLonger*f.best.Seconds
}

const muchLonger = 2.5

// near returns the candidates that differ in one thing.
func (f *finder) near(c Candidate) []Candidate {
	var list []Candidate
	m := c.Strategy
	with := func(change func(s *strategy.Strategy)) {
		x := c
		change(&x.Strategy)
		list = append(list, x)
	}
	for _, n := range f.space.micros(m) {
		with(func(s *strategy.Strategy) { s.Micro = n })
	}
	for _, z := range f.space.zeros(m) {
		with(func(s *strategy.Strategy) { s.Zero = z })
	}
	for _, r := range f.recomputes(c) {
		with(func(s *strategy.Strategy) { s.Recompute = r })
	}
	for k, class := range f.space.classes {
		for _, spec := range f.space.weights(k, m) {
			list = append(list, c.withWeights(class, spec))
		}
	}
	for i := range c.Inputs {
		for _, spec := range f.space.inputs(i, m) {
			x := c
			x.Inputs = slices.Clone(c.Inputs)
			x.Inputs[i] = spec
			list = append(list, x)
		}
	}
	return list
}

// recomputes returns the recomputation policies to try. They trade time for memory, so they are tried only if
// memory is short.
func (f *finder) recomputes(c Candidate) []strategy.Recompute {
	list := f.space.recomputes(c.Strategy)
	if c.Strategy.Recompute.Mode() == list[0].Mode() && f.fits(f.price(c)) {
		return nil
	}
	return list
}

// withWeights returns the candidate with the given layout for some parameters, by number.
func (c Candidate) withWeights(which []int, s mesh.Spec) Candidate {
	c.Weights = slices.Clone(c.Weights)
	for _, i := range which {
		c.Weights[i] = s
	}
	return c
}

// done returns the plan, or the reason why there is none.
func (f *finder) done() (*Plan, error) {
	p := f.plan
	p.Priced = len(f.known)
	if f.best.Err != nil {
		return nil, fmt.Errorf("auto: no plan runs: %w", f.best.Err)
	}
	if !f.fits(f.best.Price) {
		return nil, f.misfit()
	}
	p.Candidate, p.Price = f.best.Candidate, f.best.Price
	p.Meshes = len(f.others)
	p.Bound = min(f.bound(), p.Seconds)
	p.Shards = f.shards[degrees(p.Strategy)]
	for _, o := range f.others {
		if o.key() != p.key() {
			p.Others = append(p.Others, o)
		}
	}
	slices.SortStableFunc(p.Others, func(a, b Other) int {
		switch {
		case f.better(a.Price, b.Price):
			return -1
		case f.better(b.Price, a.Price):
			return 1
		}
		return 0
	})
	return p, nil
}
