package forecast

import (
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/strategy"
)

// Plan is the chosen strategy, and why.
type Plan struct {
	Strategy strategy.Strategy
	// Step is the predicted seconds of a step, between Low and High.
	Step, Low, High float64
	// Reasons has a line for each of the next best strategies: how much slower it is.
	Reasons []string
	// Alone is the predicted seconds on one device with all of the machine's cores; 0 if it does not fit.
	Alone float64
	// Uncalibrated means that this machine was not measured: the prediction is for a typical machine.
	Uncalibrated bool
	// Devices is the number of devices requested.
	Devices int
}

// String prints the chosen strategy and why.
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

// Auto plans a run on this machine: it returns the best strategy by the cost model, and how much slower
// others are.
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

// find searches the strategies that trainers support.
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

// chosen returns the first plan that can run here, with how much slower the next ones are.
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
