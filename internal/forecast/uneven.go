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
	e, w, err := r.uneven(speeds)
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
	for _, c := range append(append(list, Candidate{Strategy: now}), pipelines(now, r.Devices)...) {
		for _, s := range recuts(c.Strategy, w, speeds) {
			if c, ok := shifted(e, s); ok && c.Estimate.Step < best.Estimate.Step {
				best = c
			}
		}
	}
	return best, seconds, nil
}

// EstimateUneven returns the cost terms of a step of a strategy on processes of different speed.
func EstimateUneven(r Run, s strategy.Strategy, speeds []float64) (plan.Estimate, error) {
	e, _, err := r.uneven(speeds)
	if err != nil {
		return plan.Estimate{}, err
	}
	return e.Estimate(s)
}

// uneven returns an estimator of a run on processes of the given speeds.
func (r Run) uneven(speeds []float64) (*plan.Estimator, plan.Workload, error) {
	w, err := r.workload()
	if err != nil {
		return nil, w, err
	}
	hw, cal, err := r.machine(r.Devices, w)
	if err != nil {
		return nil, w, err
	}
	if hw, err = slowed(hw, speeds); err != nil {
		return nil, w, err
	}
	e, err := plan.NewEstimator(w, hw, cal)
	return e, w, err
}

// pipelines returns pipelines of all devices: they can give the slow ones the least work, though they are
// seldom among the best if all are equally fast.
func pipelines(now strategy.Strategy, devices int) (list []Candidate) {
	for _, schedule := range []string{"1f1b", "zbh1"} {
		list = append(list, Candidate{Strategy: strategy.Strategy{DP: 1, TP: 1, PP: devices, Micro: 1,
			Schedule: schedule, AMP: now.AMP}})
	}
	return list
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

// shifted returns a strategy whose layers are moved one by one to the next stage or the one before, as long
// as that makes the step faster: embedding and head are work, too, and stages wait for each other. ok is
// false if it does not fit.
func shifted(e *plan.Estimator, s strategy.Strategy) (best Candidate, ok bool) {
	got, err := e.Estimate(s)
	if err != nil || !got.Fits {
		return best, false
	}
	best = Candidate{s, got}
	for moved := true; moved; {
		moved = false
		from := best.Strategy.Layers
		for i := range len(from) - 1 {
			for _, by := range []int{1, -1} {
				next := best.Strategy
				next.Layers = slices.Clone(from)
				next.Layers[i], next.Layers[i+1] = from[i]+by, from[i+1]-by
				if min(next.Layers[i], next.Layers[i+1]) < 1 {
					continue
				}
				if got, err := e.Estimate(next); err == nil && got.Fits && got.Step < best.Estimate.Step {
					best, moved = Candidate{next, got}, true
				}
			}
		}
	}
	return best, true
}

// slowed returns a cluster whose devices belong to processes of the given speeds, in order: each process is a
// host of its own, with the links that join it to the others.
func slowed(hw *cluster.Cluster, speeds []float64) (*cluster.Cluster, error) {
	if len(speeds) == 0 || hw.Size()%len(speeds) != 0 {
		return nil, fmt.Errorf("replan: %d devices for %d processes: want as many for each", hw.Size(), len(speeds))
	}
	out := &cluster.Cluster{Name: hw.Name}
	each := hw.Size() / len(speeds)
	one := len(hw.Groups) == 1 && hw.Groups[0].Hosts == 1
	for i, speed := range speeds {
		p := hw.Groups[hw.At(i*each).Group]
		if one { // processes of one machine communicate through its memory, and their cores copy
			p.NIC, p.NICs = p.Fabric, each
			p.NIC.Bandwidth *= speed
		}
		p.Hosts, p.Devices = 1, each
		p.Device.Rates = slices.Clone(p.Device.Rates)
		for i := range p.Device.Rates {
			p.Device.Rates[i].Peak *= speed
			p.Device.Rates[i].Measured *= speed
		}
		p.Device.Bandwidth *= speed
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

// Scaled returns the calibration of this machine with the terms of a run multiplied by measured factors.
func Scaled(r Run, c plan.Constants) (plan.Calibration, error) {
	r.Hosts, r.Cluster = nil, nil // the calibration is of one machine
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
