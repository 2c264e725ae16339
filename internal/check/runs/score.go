package runs

import (
	"fmt"
	"math"
	"slices"
)

// runScore is the agreement of a set of predictions with measurements.
type runScore struct {
	n                       int
	mape, median, max, bias float64
	// pairs of one model in different times, and those that are predicted in the same order minus the others
	pairs, agree       int
	farPairs, farAgree int // the same of pairs whose times differ by more than 5%
	groups             int
	regret, worst      float64
	held               int // within their interval
	memN               int
	memMAPE, memMax    float64
	oom                [2][2]int // measured, predicted
}

// tau is Kendall's rank correlation inside models, and that of pairs which differ by more than noise.
func (s *runScore) tau() (all, far float64) {
	return float64(s.agree) / float64(s.pairs), float64(s.farAgree) / float64(max(1, s.farPairs))
}

// score compares cases that have been estimated.
func score(cases []*runCase) runScore {
	var s runScore
	var errs []float64
	for _, c := range cases {
		if oom, said := c.row.Measured.failed(); said {
			s.oom[index(oom)][index(!c.fits())]++
		}
		if c.memory > 0 {
			e := math.Abs(c.predictedMemory()/c.memory - 1)
			s.memN++
			s.memMAPE += e
			s.memMax = math.Max(s.memMax, e)
		}
		if c.step == 0 {
			continue
		}
		e := c.got.Step/c.step - 1
		errs = append(errs, math.Abs(e))
		s.bias += e
		if c.got.Low <= c.step && c.step <= c.got.High {
			s.held++
		}
	}
	if s.memN > 0 {
		s.memMAPE /= float64(s.memN)
	}
	s.n = len(errs)
	if s.n > 0 {
		for _, e := range errs {
			s.mape += e / float64(s.n)
		}
		slices.Sort(errs)
		s.median, s.max = errs[s.n/2], errs[s.n-1]
		s.bias /= float64(s.n)
	}
	s.rank(cases)
	return s
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// contest returns what rows must have in common for their strategies to be compared: everything but the
// strategy.
func (c *runCase) contest() string {
	return fmt.Sprintf("%s|%d|%d|%s|%d|%d|%s|%s", c.workload.Model.Name, c.workload.Seq, c.workload.Batch,
		c.row.Cluster.GPU, c.cluster.Size(),
		c.workload.Model.Layers*c.workload.Model.Hidden, c.row.Precision, c.row.Framework)
}

// rank compares strategies of one model with each other: pairs in the right order, and the loss of choosing
// by prediction.
func (s *runScore) rank(cases []*runCase) {
	groups := map[string][]*runCase{}
	var keys []string
	for _, c := range cases {
		if c.step == 0 {
			continue
		}
		k := c.contest()
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], c)
	}
	for _, k := range keys {
		g := groups[k]
		if distinct(g) < 3 {
			continue
		}
		s.groups++
		for i, a := range g {
			for _, b := range g[:i] {
				s.pair(a, b)
			}
		}
		lost := regret(g)
		s.regret += lost
		s.worst = math.Max(s.worst, lost)
	}
	if s.groups > 0 {
		s.regret /= float64(s.groups)
	}
}

// distinct counts strategies: runs of one strategy cannot be ranked.
func distinct(g []*runCase) int {
	seen := map[string]bool{}
	for _, c := range g {
		seen[c.strategy.Line()] = true
	}
	return len(seen)
}

func (s *runScore) pair(a, b *runCase) {
	if a.step == b.step || a.strategy.Equal(b.strategy) {
		return
	}
	sign := 0
	switch d := (a.got.Step - b.got.Step) * (a.step - b.step); {
	case d > 0:
		sign = 1
	case d < 0:
		sign = -1
	}
	s.pairs++
	s.agree += sign
	if math.Abs(a.step-b.step) > 0.05*math.Min(a.step, b.step) {
		s.farPairs++
		s.farAgree += sign
	}
}

// regret returns how much longer the strategy predicted to be fastest took than the fastest one.
func regret(g []*runCase) float64 {
	best, chosen := g[0], g[0]
	for _, c := range g {
		if c.step < best.step {
			best = c
		}
		if c.got.Step < chosen.got.Step {
			chosen = c
		}
	}
	return chosen.step/best.step - 1
}
