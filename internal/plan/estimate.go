package plan

import "github.com/galley-ml/galley/strategy"

// Estimate prices a strategy.
func (e *Estimator) Estimate(s strategy.Strategy) (Estimate, error) {
	if err := e.Check(s); err != nil {
		return Estimate{}, err
	}
	s = s.Sized(e.w.Batch)
	t, err := e.split(&s)
	if err != nil {
		return Estimate{}, err
	}
	micros := s.Micros(e.w.Batch)
	out := Estimate{Level: e.cal.Level, Fits: true}
	if err := e.flow(&s, t, micros, &out); err != nil {
		return Estimate{}, err
	}
	e.tail(&s, t, &out)
	out.Step = out.Parts.Sum()
	spread := e.cal.spread()
	out.Low, out.High = out.Step/(1+spread), out.Step*(1+spread)
	out.MFU = e.w.Model.FlopsPerToken(e.w.Seq) * e.w.Tokens() / (out.Step * e.peak())
	if err := e.memory(&s, t, micros, &out); err != nil {
		return Estimate{}, err
	}
	return out, nil
}

// peak returns the peak rate of all devices by specification.
func (e *Estimator) peak() float64 {
	total := 0.0
	for i, g := range e.cluster.Groups {
		total += e.pricers[i].peak * float64(g.Hosts*g.Devices)
	}
	return total
}
