package galley

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/models"
)

// AutoConfig is a training run for which a strategy is wanted.
type AutoConfig struct {
	Model models.Config
	// Batch and Seq are the sequences of a step and the tokens of each.
	Batch, Seq int
	// Devices is how many in-process devices there are.
	Devices int
	// Calibration is a file of galley calibrate as text; empty takes what such machines usually do.
	Calibration []byte
	// AMP is as in Strategy.
	AMP string
}

// AutoPlan is the strategy that a planner chose, and why.
type AutoPlan struct {
	Strategy Strategy
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

// String says what was chosen and why.
func (p *AutoPlan) String() string {
	text := fmt.Sprintf("chose %s: a step should take %s (%s to %s)", p.Strategy, search.Seconds(p.Step),
		search.Seconds(p.Low), search.Seconds(p.High))
	for _, r := range p.Reasons {
		text += "\n  " + r
	}
	if p.Devices > 1 && p.Alone > 0 && p.Alone < p.Step {
		text += fmt.Sprintf("\none device with all cores should be faster: %s a step: the devices of a process share its cores",
			search.Seconds(p.Alone))
	}
	if p.Uncalibrated {
		text += fmt.Sprintf("\nthese times are uncalibrated, of a usual machine: galley calibrate --devices %d -o here.yaml measures this one "+
			"for --calibration here.yaml", p.Devices)
	}
	return text
}

// Auto plans a run on this machine: the best strategy under the cost model, and what others would lose.
func Auto(c AutoConfig) (*AutoPlan, error) {
	w, err := c.workload()
	if err != nil {
		return nil, err
	}
	find := func(devices int) (*search.Answer, error) {
		hw := cluster.Local(cluster.LocalConfig{Devices: devices})
		cal := plan.Default(hw, w)
		if len(c.Calibration) > 0 {
			if cal, err = plan.ParseCalibration(c.Calibration); err != nil {
				return nil, err
			}
		}
		return search.Find(search.Config{
			Workload: w, Cluster: hw, Top: 4, Workers: min(runtime.GOMAXPROCS(0),
				8), Allow: func(s Strategy) bool { return s.Unrunnable() == nil },
		}, cal)
	}
	a, err := find(c.Devices)
	if err != nil {
		return nil, err
	}
	if a.Misfit != nil {
		return nil, a.Misfit
	}
	p, err := chosen(w, a.Plans, c.AMP)
	if err != nil {
		return nil, err
	}
	p.Uncalibrated, p.Devices = len(c.Calibration) == 0, max(1, c.Devices)
	if one, err := find(1); err == nil && one.Misfit == nil {
		p.Alone = one.Plans[0].Estimate.Step
	}
	return p, nil
}

// chosen is the first plan that can run here, with what the next ones lose to it.
func chosen(w plan.Workload, plans []search.Plan, amp string) (*AutoPlan, error) {
	var out *AutoPlan
	var best search.Plan
	var refused error
	for _, p := range plans {
		s, err := runnable(p.Strategy, w.Batch)
		if err != nil {
			refused = err
			continue
		}
		s.AMP = amp
		if out == nil {
			e := p.Estimate
			out, best = &AutoPlan{Strategy: s, Step: e.Step, Low: e.Low, High: e.High}, p
		} else if len(out.Reasons) < 3 {
			out.Reasons = append(out.Reasons, fmt.Sprintf("%s: %s", s, search.Why(best, p)))
		}
	}
	if out == nil {
		return nil, fmt.Errorf("auto: none of %d plans can run in this process: %w", len(plans), refused)
	}
	return out, nil
}

// workload is the run as the planner sees it.
func (c AutoConfig) workload() (plan.Workload, error) {
	m, err := planModel(c.Model)
	if err != nil {
		return plan.Workload{}, err
	}
	w := plan.Workload{Model: m, Batch: c.Batch, Seq: c.Seq, Precision: "fp32"}
	if c.AMP == "bf16" || c.AMP == "f16" {
		w.Precision = map[string]string{"bf16": "bf16", "f16": "fp16"}[c.AMP]
	}
	return w, w.Check()
}

// planModel is a model's shape as the planner sees it: what its config.json says.
func planModel(c models.Config) (plan.Model, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return plan.Model{}, err
	}
	return plan.ParseModel(c.Family, text)
}

// runnable is a planned strategy for steps of a batch, or the reason why no trainer runs it.
func runnable(s Strategy, batch int) (Strategy, error) {
	s, err := s.ForBatch(batch)
	if err == nil {
		err = s.Check()
	}
	return s, err
}

// sameShape is the first difference between a planned model and one that is to run; empty where there is
// none.
func sameShape(a, b plan.Model) string {
	for _, x := range []struct {
		what         string
		planned, got int
	}{
		{"layers", a.Layers, b.Layers}, {"hidden size", a.Hidden, b.Hidden}, {"heads", a.Heads, b.Heads},
		{"key heads", orElse(a.KVHeads, a.Heads), orElse(b.KVHeads, b.Heads)},
		{"head size", orElse(a.HeadDim, a.Hidden/max(1, a.Heads)), orElse(b.HeadDim, b.Hidden/max(1, b.Heads))},
		{"inner size", a.FFN, b.FFN}, {"vocabulary", a.Vocab, b.Vocab}, {"experts", a.Experts.Count,
			b.Experts.Count},
	} {
		if x.planned != x.got {
			return fmt.Sprintf("%s: the plan has %d, this has %d", x.what, x.planned, x.got)
		}
	}
	return ""
}

func orElse(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// PlanFile is the strategy of a file that galley plan wrote, for a run. A plan for another model, batch or
// sequence is refused, as is one for another number of devices, where that is not 0.
func PlanFile(path string, c AutoConfig) (Strategy, error) {
	f, err := planfile.Load(path)
	if err != nil {
		return Strategy{}, err
	}
	w, err := c.workload()
	if err != nil {
		return Strategy{}, err
	}
	switch have := f.Workload; {
	case sameShape(have.Model, w.Model) != "":
		return Strategy{}, fmt.Errorf("%s: it is for another model: %s: make a new one with galley plan", path,
			sameShape(have.Model, w.Model))
	case have.Batch != w.Batch || have.Seq != w.Seq:
		return Strategy{}, fmt.Errorf("%s: it is for %d sequences of %d tokens: this run has %d of %d: make a new one with galley plan, or use those", path, have.Batch, have.Seq, w.Batch, w.Seq)
	case c.Devices > 0 && f.Strategy.Devices() != c.Devices:
		return Strategy{}, fmt.Errorf("%s: it is for %d devices: this run has %d", path, f.Strategy.Devices(),
			c.Devices)
	}
	s, err := runnable(f.Strategy, f.Workload.Batch)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if len(f.Stages) > 1 && s.Layers == nil {
		s.Layers = f.Stages
	}
	return s, nil
}
