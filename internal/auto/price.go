package auto

import (
	"fmt"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/strategy"
)

// Config is a run that is to be planned.
type Config struct {
	// Run is what is trained; its parameters need no values. What its annotations ask stays.
	Run executor.Config
	// Batch is the types of a step's batch.
	Batch   []ir.Type
	Machine Machine
	// Pinned is what of the strategy is not up to the search: whatever is not zero.
	Pinned strategy.Strategy
	// Plan plans the step of a run: that of package tapes.
	Plan func(c executor.Config, batch ...ir.Type) (*executor.Plan, error)
}

// Price is what a candidate takes.
type Price struct {
	// Seconds is a step's, Work what devices do in it, Waiting what they wait, all together.
	Seconds, Work, Waiting float64
	// Peak is the bytes of the device that takes most.
	Peak float64
	// Devices is how many it takes.
	Devices int
	// Err is why it cannot run.
	Err error
}

// pricer prices candidates, each once.
type pricer struct {
	c     *Config
	known map[string]Price
}

// price plans a candidate's step and runs its tapes by the clock.
func (p *pricer) price(x Candidate) Price {
	key := x.key()
	if out, ok := p.known[key]; ok {
		return out
	}
	out, err := p.plan(x)
	if err != nil {
		out.Err = err
	}
	p.known[key] = out
	return out
}

func (p *pricer) plan(x Candidate) (out Price, err error) {
	// whose meshes may have the devices it lacks
	if err := x.Strategy.Check(); err != nil && !placed(x.Strategy) {
		return out, err
	}
	run := x.Config(p.c.Run)
	if clock := p.c.Machine.clock(2, 1); x.Strategy.Branches > 1 {
		prices := step.PricesOf(clock, threads(clock, 2))
		run.Prices = &prices
	}
	plan, err := p.c.Plan(run, p.c.Batch...)
	if err != nil {
		return out, err
	}
	for _, d := range plan.Devices {
		out.Peak = max(out.Peak, float64(d.Memory.Peak()))
	}
	s := x.Strategy
	devices, apart := s.Devices(), s.DP*s.TP
	if placed(s) {
		devices, apart = len(plan.Devices), plan.Step.Meshes[0].Size()
	}
	out.Devices = devices
	f, err := plan.Step.Forecast(p.c.Machine.clock(devices, apart))
	if err != nil {
		return out, fmt.Errorf("%s: %w", s, err)
	}
	out.Seconds, out.Work, out.Waiting = f.Seconds, f.Work, f.Waiting
	return out, nil
}

// fits reports whether a price can be paid.
func (p *pricer) fits(x Price) bool {
	return x.Err == nil && (p.c.Machine.Memory == 0 || x.Peak <= p.c.Machine.Memory)
}

// better reports whether a is to be had rather than b: it runs, it fits, it is faster.
func (p *pricer) better(a, b Price) bool {
	switch {
	case a.Err != nil || b.Err != nil:
		return a.Err == nil && b.Err != nil
	case p.fits(a) != p.fits(b):
		return p.fits(a)
	case !p.fits(a):
		return a.Peak < b.Peak
	}
	return a.Seconds < b.Seconds*(1-enough)
}

// enough is by how much a candidate must be faster to count: a clock whose ops differ from one time to the
// next says no more.
const enough = 0.002

// PriceOf plans and prices one candidate.
func PriceOf(c Config, x Candidate) (Price, error) {
	p := (&pricer{c: &c, known: map[string]Price{}}).price(x)
	return p, p.Err
}

// DataParallel returns the candidate in which all devices have rows of their own and everything else whole.
func DataParallel(c Config) (Candidate, error) {
	f, err := newFinder(&c)
	if err != nil {
		return Candidate{}, err
	}
	return f.space.whole(strategy.Strategy{DP: c.Machine.Devices, TP: 1, PP: 1, AMP: c.Pinned.AMP}), nil
}
