package galley

import (
	"fmt"
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
	p, err := priced(s, c.Batch)
	if err != nil {
		return 0, err
	}
	out, err := e.Estimate(p)
	return time.Duration(out.Step * float64(time.Second)), err
}

// priced is a strategy as the planner sees it: the other way of strategyOf.
func priced(s Strategy, batch int) (plan.Strategy, error) {
	p := plan.Strategy{DP: s.DP, TP: s.TP, PP: s.PP, CP: s.CP, EP: s.EP, Zero: s.Zero, Schedule: s.Schedule,
		VPP:   s.VPP,
		Micro: batch / (s.Micro * s.DP), SP: s.Sequence, CPKind: s.Context, Layers: s.Layers}
	if p.Micro*s.Micro*s.DP != batch {
		return p, fmt.Errorf("price: a batch of %d is not the same for %d micro-batches on %d devices each: want a multiple of %d", batch, s.Micro, s.DP, s.Micro*s.DP)
	}
	if s.OwnSchedule() {
		return p, fmt.Errorf("price: own schedules are not priced: want the name of one")
	}
	if s.Offload != "none" {
		p.Offload.Optimizer = 1
	}
	if s.PP == 1 {
		p.Schedule = ""
	} else if p.VPP == 0 {
		p.VPP = p.Class().Each()
	}
	return p, p.Recompute.UnmarshalText([]byte(s.Recompute))
}
