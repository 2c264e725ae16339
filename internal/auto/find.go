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
	// Bound is seconds that no candidate is below: every op that stays an op of its own in the way that computes
	// least, on the best of the meshes, and no exchanges.
	Bound float64
	// Shards is how the search of shardings went on the plan's mesh; nil where its tensor axis is one device.
	Shards *Shards
	// Others is the best of each other mesh, the best first, with its price.
	Others []Other
	// Priced is how many candidates were planned and priced, Meshes how many shapes of meshes they are of.
	Priced, Meshes int
	machine        Machine
	config         *Config
}

// Shards is the size of the search of shardings, and what it came to.
type Shards struct {
	Variables, Labels int
	Gap               float64
}

// Other is a candidate that lost.
type Other struct {
	Candidate
	Price
}

// Gap returns how far the plan may be from the best, as a part of it.
func (p *Plan) Gap() float64 { return max(0, (p.Seconds-p.Bound)/p.Seconds) }

// finder looks for the best candidate.
type finder struct {
	*pricer
	space  *space
	seeds  *proposer
	best   Other
	others []Other
	shards map[[4]int]*Shards
	plan   *Plan
}

// Find looks for the best candidate: on every mesh that could be better than what is known it begins with
// data parallelism, with rows by the tensor axis and with what package seed proposes, and continues from each
// as long as one change helps.
func Find(c Config) (p *Plan, err error) {
	defer fault.Recover("search of a plan", &err)
	f, err := newFinder(&c)
	if err != nil {
		return nil, err
	}
	for _, m := range f.space.meshes() {
		f.look(m)
	}
	f.settle()
	return f.done()
}

// settle takes data parallelism of all devices where the best is faster by no more than prices can tell: what
// everybody would do must not lose to a plan by luck.
func (f *finder) settle() {
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

// certain is by how much another plan must be faster than data parallelism, as a part of its time: less than
// what a calibration of a busy machine is wrong by, and no more than keeps the plan within 5% of the best.
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

// look finds the best of a mesh.
func (f *finder) look(m strategy.Strategy) {
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

// starts returns where to begin on a mesh.
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

// degrees tells meshes apart.
func degrees(m strategy.Strategy) [4]int { return [4]int{m.DP, m.TP, m.PP, m.Branches} }

// limits returns what parameters and states may take where shardings are proposed: whatever they like, and so
// that a half or a quarter is left for the rest.
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

// descend changes one thing at a time as long as that helps.
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

// hopeless reports whether a candidate runs and takes so much longer than the best that one change after the
// other is not worth trying.
func (f *finder) hopeless(p Price) bool {
	return f.fits(p) && f.fits(f.best.Price) && p.Seconds > muchLonger*f.best.Seconds
}

const muchLonger = 2.5

// near returns the candidates that differ from one in one thing.
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

// recomputes returns what backward passes may compute again: it takes time for memory, so that it is tried
// only where that is short.
func (f *finder) recomputes(c Candidate) []strategy.Recompute {
	list := f.space.recomputes(c.Strategy)
	if c.Strategy.Recompute.Mode() == list[0].Mode() && f.fits(f.price(c)) {
		return nil
	}
	return list
}

// withWeights returns the candidate with parameters of some numbers laid out so.
func (c Candidate) withWeights(which []int, s mesh.Spec) Candidate {
	c.Weights = slices.Clone(c.Weights)
	for _, i := range which {
		c.Weights[i] = s
	}
	return c
}

// done returns the plan, or why there is none.
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
