package forecast

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Replan returns the fastest strategy for a run on processes of different speed, each with equally many
// devices, and the predicted time of the current one there. Pipeline stages are sized by the speed of the
// devices that hold them.
func Replan(r Run, now strategy.Strategy, speeds []float64) (best Candidate, seconds float64, err error) {
	w, err := r.workload()
	if err != nil {
		return best, 0, err
	}
	hw, cal, err := r.machine(r.Devices, w)
	if err != nil {
		return best, 0, err
	}
	uneven, err := slowed(hw, speeds)
	if err != nil {
		return best, 0, err
	}
	e, err := plan.NewEstimator(w, uneven, cal)
	if err != nil {
		return best, 0, err
	}
	got, err := e.Estimate(now)
	if err != nil {
		return best, 0, err
	}
	best, seconds = Candidate{now, got}, got.Step
	list, err := Candidates(r, 8)
	if err != nil {
		return best, seconds, err
	}
	for _, c := range append(list, Candidate{Strategy: now}, pipelined(now, r.Devices)) {
		for _, s := range recuts(c.Strategy, w, speeds) {
			if got, err := e.Estimate(s); err == nil && got.Fits && got.Step < best.Estimate.Step {
				best = Candidate{s, got}
			}
		}
	}
	return best, seconds, nil
}

// pipelined returns a pipeline of all devices: it can give the slow ones the least work, though it is seldom
// among the best if all are equally fast.
func pipelined(now strategy.Strategy, devices int) Candidate {
	return Candidate{Strategy: strategy.Strategy{DP: 1, TP: 1, PP: devices, Micro: 1, AMP: now.AMP}}
}

// recuts returns a strategy and, if it is a pipeline, variants with stages sized by the speed of their
// devices, with ever more micro-batches: then slow stages delay only the first.
func recuts(s strategy.Strategy, w plan.Workload, speeds []float64) []strategy.Strategy {
	list := []strategy.Strategy{s}
	if cut := recut(s, w.Model.Layers, speeds); len(cut.Layers) > 0 {
		for micro, each := max(1, s.Micro), w.Batch/max(1, s.DP); micro <= each && each%micro == 0; micro *= 2 {
			cut.Micro = micro
			list = append(list, cut)
		}
	}
	return list
}

// slowed returns a machine whose devices belong to processes of the given speeds, in order.
func slowed(hw *cluster.Cluster, speeds []float64) (*cluster.Cluster, error) {
	g := hw.Groups[0]
	if len(speeds) == 0 || g.Devices%len(speeds) != 0 {
		return nil, fmt.Errorf("replan: %d devices for %d processes: want as many for each", g.Devices, len(speeds))
	}
	out := &cluster.Cluster{Name: hw.Name}
	for _, speed := range speeds {
		p := g
		p.Hosts, p.Devices = 1, g.Devices/len(speeds)
		p.Device.Rates = slices.Clone(g.Device.Rates)
		for i := range p.Device.Rates {
			p.Device.Rates[i].Peak *= speed
			p.Device.Rates[i].Measured *= speed
		}
		p.Device.Bandwidth *= speed
		p.NIC, p.NICs = g.Fabric, p.Devices // processes of one machine communicate through its memory
		out.Groups = append(out.Groups, p)
	}
	return out, out.Check()
}

// recut sizes the stages of a pipeline by the speed of the slowest process of each rank.
func recut(s strategy.Strategy, layers int, speeds []float64) strategy.Strategy {
	if s.PP < 2 || s.VPP > 1 || layers < s.PP {
		return s
	}
	rank := make([]float64, s.PP)
	for i := range rank { // devices of a rank are adjacent, and so are ranks
		first, last := i*len(speeds)/s.PP, max(i*len(speeds)/s.PP, ((i+1)*len(speeds)-1)/s.PP)
		rank[i] = slices.Min(speeds[first : last+1])
	}
	s.Layers = make([]int, s.PP)
	for i := range s.Layers {
		s.Layers[i] = 1
	}
	for range layers - s.PP { // each further layer goes to the rank that would finish it first
		next := 0
		for i := range rank {
			if float64(s.Layers[i]+1)/rank[i] < float64(s.Layers[next]+1)/rank[next] {
				next = i
			}
		}
		s.Layers[next]++
	}
	return s
}

// Estimate returns the cost terms of a step of a strategy, as Price computes them.
func Estimate(r Run, s strategy.Strategy) (plan.Estimate, error) {
	w, err := r.workload()
	if err != nil {
		return plan.Estimate{}, err
	}
	hw, cal, err := r.machine(s.Devices(), w)
	if err != nil {
		return plan.Estimate{}, err
	}
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return plan.Estimate{}, err
	}
	return e.Estimate(s)
}

// Scaled returns the calibration of a run with its terms multiplied by measured factors.
func Scaled(r Run, c plan.Constants) (plan.Calibration, error) {
	w, err := r.workload()
	if err != nil {
		return plan.Calibration{}, err
	}
	hw, cal, err := r.machine(r.Devices, w)
	if err != nil {
		return cal, err
	}
	one := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return x
	}
	cal.Constants.Compute = one(cal.Constants.Compute) * c.Compute
	cal.Constants.Communication = one(cal.Constants.Communication) * c.Communication
	cal.Devices = slices.DeleteFunc(slices.Clone(cal.Devices), func(c plan.Curve) bool {
		return c.Device != hw.Groups[0].Device.Name
	})
	cal.Level, cal.Source, cal.Cluster = 2, "a training run", string(hw.YAML())
	return cal, nil
}
