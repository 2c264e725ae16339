package plan

import (
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// span is a range of devices that contains a collective's groups. On a homogeneous cluster it does not
// matter, and is zero.
type span struct {
	first, last int
}

// spanOf returns the devices of a pipeline rank.
func (e *Estimator) spanOf(s *strategy.Strategy, rank int) span {
	if e.cluster.Uniform() {
		return span{}
	}
	per := s.TP * s.CP * s.DP
	return span{rank * per, (rank + 1) * per}
}

type trafficKey struct {
	cluster.Axis
	span
}

// collective returns the time of a collective in all groups of an axis among some devices.
func (e *Estimator) collective(k cluster.Kind, bytes float64, a cluster.Axis, on span) float64 {
	if a.Size <= 1 || bytes <= 0 {
		return 0
	}
	scale := e.cal.Constants.communication()
	if on == (span{}) {
		return scale * e.cluster.Collective(k, bytes, a).Seconds
	}
	key := trafficKey{a, on}
	e.mu.RLock()
	t, ok := e.traffic[key]
	e.mu.RUnlock()
	if !ok {
		t = e.cluster.Traffic(a, on.first, on.last)
		e.mu.Lock()
		e.traffic[key] = t
		e.mu.Unlock()
	}
	return scale * t.Cost(k, bytes).Seconds
}
