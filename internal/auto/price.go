package auto

import (
	"fmt"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/strategy"
)

// Config describes the run to be planned.
type Config struct {
	// Run is the training run; its parameters need no values. Its annotations are kept.
	Run executor.Config
	// Batch holds the types of a step's batch.
	Batch   []ir.Type
	Machine Machine
	// Pinned holds the fields of the strategy, those that are not zero, that the search must not change.
	Pinned strategy.Strategy
	// Plan plans the step of a run: that of package tapes.
	Plan func(c executor.Config, batch ...ir.Type) (*executor.Plan, error)
}

// Price is the cost of a candidate.
type Price struct {
	// Seconds is the time of a step, Work the total time that devices compute in it, Waiting the total that they
	// wait.
	Seconds, Work, Waiting float64
	// Peak is the bytes of the device that uses the most.
	Peak float64
	// Devices is the number of devices.
	Devices int
	// Err is the reason why it cannot run.
	Err error
}

// pricer prices candidates and caches the prices.
type pricer struct {
	c     *Config
	known map[string]Price
}

// price plans a candidate's step and simulates its tapes.
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
	// the model's meshes may provide the devices that it lacks
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

// fits reports whether a candidate runs within the machine's memory.
func (p *pricer) fits(x Price) bool {
	return x.Err == nil && (p.c.Machine.Memory == 0 || x.Peak <= p.c.Machine.Memory)
}

// better reports whether a is preferable to b: it runs, it fits, it is faster.
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

// enough is how much faster a candidate must be to count, because simulated times are not more precise.
const enough = 0.002

// PriceOf plans and prices one candidate.
func PriceOf(c Config, x Candidate) (Price, error) {
	p := (&pricer{c: &c, known: map[string]Price{}}).price(x)
	return p, p.Err
}

// DataParallel returns the candidate that splits the batch over all devices and replicates everything else.
func DataParallel(c Config) (Candidate, error) {
	f, err := newFinder(&c)
	if err != nil {
		return Candidate{}, err
	}
	return f.space.whole(strategy.Strategy{DP: c.Machine.Devices, TP: 1, PP: 1, AMP: c.Pinned.AMP}), nil
}
