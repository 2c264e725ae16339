package forecast

import (
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

// Plan is the strategy that was chosen, and why.
type Plan struct {
	Strategy strategy.Strategy
	// Step is the seconds that it should take, between Low and High.
	Step, Low, High float64
	// Reasons is a line for each of the next best ones: what it loses.
	Reasons []string
	// Alone is the seconds that one device with all of the machine's cores should take; 0 where it does not fit.
	Alone float64
	// Uncalibrated means that nothing was measured here: the seconds are what such machines usually take.
	Uncalibrated bool
	// Devices is how many were asked for.
	Devices int
}

// String returns what was chosen and why.
func (p *Plan) String() string {
	text := fmt.Sprintf("chose %s: a step should take %s (%s to %s)", p.Strategy, search.Seconds(p.Step),
		search.Seconds(p.Low), search.Seconds(p.High))
	for _, r := range p.Reasons {
		text += "\n  " + r
	}
	if p.Devices > 1 && p.Alone > 0 && p.Alone < p.Step {
		text += fmt.Sprintf(
			"\none device with all cores should be faster: %s a step: the devices of a process share its cores",
			search.Seconds(p.Alone),
		)
	}
	if p.Uncalibrated {
		text += fmt.Sprintf(
			"\nthese times are uncalibrated, of a usual machine: galley calibrate --devices %d -o here.yaml "+
				"measures this one "+
				"for --calibration here.yaml",
			p.Devices,
		)
	}
	return text
}

// Auto plans a run on this machine: the best strategy under the cost model, and what others would lose.
func Auto(r Run) (*Plan, error) {
	w, err := r.workload()
	if err != nil {
		return nil, err
	}
	a, err := r.find(r.Devices, w, 4)
	if err != nil {
		return nil, err
	}
	if a.Misfit != nil {
		return nil, a.Misfit
	}
	p, err := chosen(w, a.Plans, r.AMP)
	if err != nil {
		return nil, err
	}
	p.Uncalibrated, p.Devices = len(r.Calibration) == 0, max(1, r.Devices)
	if one, err := r.find(1, w, 4); err == nil && one.Misfit == nil {
		p.Alone = one.Plans[0].Estimate.Step
	}
	return p, nil
}

// find searches among what trainers run.
func (r Run) find(devices int, w plan.Workload, top int) (*search.Answer, error) {
	hw, cal, err := r.machine(devices, w)
	if err != nil {
		return nil, err
	}
	return r.search(hw, cal, w, top)
}

// search is like find on other devices than those of this machine.
func (r Run) search(
	hw *cluster.Cluster,
	cal plan.Calibration,
	w plan.Workload,
	top int,
) (*search.Answer, error) {
	return search.Find(search.Config{
		Workload: w, Cluster: hw, Top: top, Workers: min(runtime.GOMAXPROCS(0), 8),
		Allow: func(s strategy.Strategy) bool { return folded(s).Unrunnable() == nil },
	}, cal)
}

// chosen returns the first plan that can run here, with what the next ones lose to it.
func chosen(w plan.Workload, plans []search.Plan, amp string) (*Plan, error) {
	var out *Plan
	var best search.Plan
	var refused error
	for _, p := range plans {
		s, err := runnable(folded(p.Strategy), w.Batch)
		if err != nil {
			refused = err
			continue
		}
		s.AMP = amp
		if out == nil {
			e := p.Estimate
			out, best = &Plan{Strategy: s, Step: e.Step, Low: e.Low, High: e.High}, p
		} else if len(out.Reasons) < 3 {
			out.Reasons = append(out.Reasons, fmt.Sprintf("%s: %s", s, search.Why(best, p)))
		}
	}
	if out == nil {
		return nil, fmt.Errorf("auto: none of %d plans can run in this process: %w", len(plans), refused)
	}
	return out, nil
}
