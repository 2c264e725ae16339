package plan

import (
	"fmt"
	"sync"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// Estimator prices strategies of one workload on one cluster. It is safe for concurrent use.
type Estimator struct {
	w       Workload
	given   *cluster.Cluster
	cluster *cluster.Cluster // with all defaults filled in
	cal     Calibration
	bytes   float64 // of an activation's element
	pricers []*pricer

	simulators sync.Pool

	mu        sync.RWMutex
	pieces    map[storedPiece]piece
	layers    map[layerKey]*layerCost
	schedules map[scheduleKey]*generated
	traffic   map[trafficKey]*cluster.Traffic
}

// NewEstimator returns an estimator.
func NewEstimator(w Workload, c *cluster.Cluster, cal Calibration) (*Estimator, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	e := &Estimator{
		w: w, given: c, cluster: c.Filled(), cal: cal, bytes: float64(precisions[w.Precision].bytes),
		pieces: map[storedPiece]piece{}, layers: map[layerKey]*layerCost{}, schedules: map[scheduleKey]*generated{},
		traffic:    map[trafficKey]*cluster.Traffic{},
		simulators: sync.Pool{New: func() any { return new(simulation) }},
	}
	for i := range c.Groups {
		p, ok := newPricer(&c.Groups[i].Device, &e.cal, &e.w)
		if !ok {
			return nil, fmt.Errorf("plan: %s has no rate for %s: got %v", c.Groups[i].Device.Name, w.Precision,
				c.Groups[i].Device.Rates)
		}
		e.pricers = append(e.pricers, p)
	}
	return e, nil
}

// Workload returns the workload that is priced.
func (e *Estimator) Workload() Workload { return e.w }

// Cluster returns the cluster on which it is priced.
func (e *Estimator) Cluster() *cluster.Cluster { return e.given }

// Check returns an error if a strategy cannot be run. It does not check memory.
func (e *Estimator) Check(s strategy.Strategy) error {
	said := s
	s = s.Sized(e.w.Batch)
	m := &e.w.Model
	bad := func(format string, args ...any) error { return fmt.Errorf("strategy: "+format, args...) }
	if min(s.DP, s.TP, s.PP, s.CP, s.EP, s.ETP, s.VPP, s.MicroBatch) < 1 {
		return bad("%s: degrees must be at least 1", s.Line())
	}
	if s.Branches > 1 {
		return bad(
			"branches=%d: they are found in a program, and priced there: galley bench branches, or Plan in Go",
			s.Branches,
		)
	}
	if n := e.cluster.Size(); s.Devices() != n {
		return bad("dp %d · tp %d · pp %d · cp %d is %d devices: the cluster has %d", s.DP, s.TP, s.PP, s.CP,
			s.Devices(), n)
	}
	switch {
	case s.Micros(e.w.Batch) == 0:
		return fmt.Errorf("strategy: %w", said.Uneven(e.w.Batch))
	case m.Heads%s.TP != 0:
		return bad("%d heads do not divide by tp %d", m.Heads, s.TP)
	case s.PP*s.VPP > m.Layers && len(s.Layers) == 0:
		return bad("pp %d · vpp %d is more than %d layers", s.PP, s.VPP, m.Layers)
	case e.w.Seq%s.CP != 0:
		return bad("sequences of %d tokens do not divide by cp %d", e.w.Seq, s.CP)
	case s.Zero < 0 || s.Zero > 3:
		return bad("zero %d: want 0 to 3", s.Zero)
	case s.Shard > 0 && (s.DP*s.CP)%s.Shard != 0:
		return bad("shard %d does not divide dp·cp %d", s.Shard, s.DP*s.CP)
	case s.EP > 1 && !m.MoE():
		return bad("ep %d: %s has no experts", s.EP, m.Name)
	case m.MoE() && m.Experts.Count%s.EP != 0:
		return bad("%d experts do not divide by ep %d", m.Experts.Count, s.EP)
	case m.MoE() && (s.DP*s.CP*s.TP)%(s.EP*s.ETP) != 0:
		return bad("ep %d · etp %d does not divide dp·cp·tp %d", s.EP, s.ETP, s.DP*s.CP*s.TP)
	case s.Context != "" && s.Context != "ring" && s.Context != "ulysses" && s.Context != "gather":
		return bad("cp_kind %q: want ring, ulysses or gather", s.Context)
	case s.Recompute.Mode() == strategy.Selective && s.Recompute.Layers() >= 0:
		return bad("recompute %s: it is priced for all layers: want selective", s.Recompute)
	}
	if err := checkSchedule(&s); err != nil {
		return err
	}
	return e.checkLayers(&s)
}

func (e *Estimator) checkLayers(s *strategy.Strategy) error {
	if len(s.Layers) == 0 {
		return nil
	}
	if len(s.Layers) != s.PP*s.VPP {
		return fmt.Errorf("strategy: layers of %d chunks: want pp %d · vpp %d", len(s.Layers), s.PP, s.VPP)
	}
	sum := 0
	for _, n := range s.Layers {
		if n < 0 {
			return fmt.Errorf("strategy: layers %v: want none below 0", s.Layers)
		}
		sum += n
	}
	if sum != e.w.Model.Layers {
		return fmt.Errorf("strategy: layers %v are %d: the model has %d", s.Layers, sum, e.w.Model.Layers)
	}
	return nil
}

// chunks returns the number of layers of each chunk. A remainder goes to the first chunks, not to the last
// one, which has the head.
func (e *Estimator) chunks(s *strategy.Strategy) []int {
	if len(s.Layers) > 0 {
		return s.Layers
	}
	n := s.PP * s.VPP
	out := make([]int, n)
	base, rest := e.w.Model.Layers/n, e.w.Model.Layers%n
	for i := range out {
		out[i] = base
		if i < rest {
			out[i]++
		}
	}
	return out
}
