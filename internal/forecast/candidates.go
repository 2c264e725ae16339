package forecast

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Candidate is a strategy that may be the best for a run, with its predicted cost.
type Candidate struct {
	Strategy strategy.Strategy
	Estimate plan.Estimate
}

// Candidates returns the best strategies for a run by the cost model that can run here, the best first, each
// with other degrees of parallelism, and the plain forms of the first ones: a small gain by the model may be
// a loss in reality.
func Candidates(r Run, most int) ([]Candidate, error) {
	w, err := r.workload()
	if err != nil {
		return nil, err
	}
	a, err := r.find(r.Devices, w, most)
	if err != nil {
		return nil, err
	}
	if a.Misfit != nil {
		return nil, a.Misfit
	}
	var list []Candidate
	var refused error
	for _, p := range a.Plans {
		s, err := runnable(p.Strategy, w.Batch)
		if err != nil {
			refused = err
			continue
		}
		s.AMP = r.AMP
		list = append(list, Candidate{s, p.Estimate})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("probe: none of %d plans can run in this process: %w", len(a.Plans), refused)
	}
	return append(list, r.plain(w, list[:min(len(list), plainForms)])...), nil
}

// plainForms is the number of candidates whose plain form is added.
const plainForms = 3

// plain returns candidates without ZeRO, sequence parallelism, recomputation and special schedules, where
// they fit.
func (r Run) plain(w plan.Workload, list []Candidate) (out []Candidate) {
	hw, cal, err := r.machine(r.Devices, w)
	if err != nil {
		return nil
	}
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return nil
	}
	for _, c := range list {
		s := strategy.Strategy{DP: c.Strategy.DP, TP: c.Strategy.TP, PP: c.Strategy.PP, CP: c.Strategy.CP,
			EP: c.Strategy.EP, Micro: c.Strategy.Micro, AMP: c.Strategy.AMP}
		s, err := runnable(s, w.Batch)
		if err != nil || s.Equal(c.Strategy) {
			continue
		}
		if got, err := e.Estimate(s); err == nil && got.Fits {
			out = append(out, Candidate{s, got})
		}
	}
	return out
}

// Measured is a strategy and the measured seconds of its step.
type Measured struct {
	Strategy strategy.Strategy
	Seconds  float64
}

// Learn returns the calibration of a run's machine with constants fitted to measured steps; what was
// calibrated before is kept.
func Learn(r Run, seen []Measured) (plan.Calibration, error) {
	w, err := r.workload()
	if err != nil {
		return plan.Calibration{}, err
	}
	hw, cal, err := r.machine(r.Devices, w)
	if err != nil {
		return cal, err
	}
	cal.Constants, cal.Spread = plan.Constants{}, 0
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return cal, err
	}
	var obs []plan.Observation
	for _, m := range seen {
		got, err := e.Estimate(m.Strategy)
		if err != nil {
			return cal, fmt.Errorf("%s: %w", m.Strategy, err)
		}
		obs = append(obs, plan.Observation{Parts: got.Parts, Measured: m.Seconds})
	}
	cal.Devices = slices.DeleteFunc(slices.Clone(cal.Devices), func(c plan.Curve) bool {
		return c.Device != hw.Groups[0].Device.Name
	})
	cal.Level, cal.Source, cal.Cluster = 2, fmt.Sprintf("%d strategies measured here", len(seen)),
		string(hw.YAML())
	cal.Constants, cal.Spread = plan.Fit(obs)
	return cal, nil
}
