package galley

import (
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// Price is how long a step of a run should take under a strategy on this machine, by the cost model that Auto
// plans with.
func Price(c AutoConfig, s Strategy) (time.Duration, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return 0, err
	}
	c.AMP, c.Devices = s.AMP, s.Devices()
	w, err := c.workload()
	if err != nil {
		return 0, err
	}
	hw := cluster.Local(cluster.LocalConfig{Devices: c.Devices})
	cal := plan.Default(hw, w)
	if len(c.Calibration) > 0 {
		if cal, err = plan.ParseCalibration(c.Calibration); err != nil {
			return 0, err
		}
	}
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return 0, err
	}
	out, err := e.Estimate(s)
	return time.Duration(out.Step * float64(time.Second)), err
}
