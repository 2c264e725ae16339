package forecast

import (
	"time"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Price returns the predicted time of a step of a run with a strategy on this machine, by the cost model that
// Auto uses.
func Price(r Run, s strategy.Strategy) (time.Duration, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return 0, err
	}
	r.AMP = s.AMP
	w, err := r.workload()
	if err != nil {
		return 0, err
	}
	hw, cal, err := r.machine(s.Devices(), w)
	if err != nil {
		return 0, err
	}
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return 0, err
	}
	out, err := e.Estimate(s)
	return time.Duration(out.Step * float64(time.Second)), err
}
