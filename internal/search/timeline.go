package search

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/plan"
)

// Simulated is a step of a plan, action by action.
type Simulated struct {
	Plan     Plan
	Timeline *pipeline.Timeline
	// Tail is what follows the last backward pass: gradients, optimizer, offloading, fixed costs.
	Tail []Part
	// Held is the bytes that a device of each rank holds besides activations.
	Held []float64
}

// Step is the seconds of all of it.
func (s *Simulated) Step() float64 {
	t := s.Timeline.Makespan
	for _, p := range s.Tail {
		t += p.Value
	}
	return t
}

// Simulate runs the schedule of a strategy with the times of its stages; micros is how many micro-batches, 0 for all of a step.
func Simulate(e *plan.Estimator, s plan.Strategy, micros int) (*Simulated, error) {
	est, err := e.Estimate(s)
	if err != nil {
		return nil, err
	}
	w := e.Workload()
	if all := s.Micros(w.Batch); micros == 0 || micros > all {
		micros = all
	}
	schedule, err := pipeline.Generate(scheduleOf(s), pipeline.Config{Ranks: max(1, s.PP), Micros: micros, Chunks: max(1, s.VPP)})
	if err != nil {
		return nil, err
	}
	costs, err := costsOf(e, s, est)
	if err != nil {
		return nil, err
	}
	line, err := pipeline.Simulate(schedule, costs)
	if err != nil {
		return nil, err
	}
	out := &Simulated{Plan: Plan{s, est}, Timeline: line}
	p := est.Parts
	// What ZeRO-3 gathers for every micro-batch is in the stages' times already.
	data := p.DP
	if s.Zero == 3 {
		data = 0
	}
	for _, x := range []Part{{"reduce gradients", data}, {"optimizer", p.Optimizer}, {"offload", p.Offload}, {"fixed", p.Fixed}} {
		if x.Value > 0 {
			out.Tail = append(out.Tail, x)
		}
	}
	for _, st := range est.Stages {
		out.Held = append(out.Held, st.Memory.Total()-st.Memory.Activations)
	}
	return out, nil
}

// costsOf spreads what a rank takes over its chunks, by their loads.
func costsOf(e *plan.Estimator, s plan.Strategy, est plan.Estimate) (pipeline.Costs, error) {
	loads, err := chunkLoads(e, s)
	if err != nil {
		return pipeline.Costs{}, err
	}
	sums := make([]float64, len(est.Stages))
	for c, x := range loads {
		sums[s.RankOf(c)] += x
	}
	send := sendTime(e, s)
	var costs pipeline.Costs
	for c, x := range loads {
		r := s.RankOf(c)
		st, share := &est.Stages[r], 0.0
		if sums[r] > 0 {
			share = x / sums[r]
		}
		weight := min(st.Weight, st.Backward)
		costs.Forward = append(costs.Forward, st.Forward*share)
		costs.Backward = append(costs.Backward, st.Backward*share)
		costs.Input = append(costs.Input, (st.Backward-weight)*share)
		costs.Weight = append(costs.Weight, weight*share)
		costs.Transfer = append(costs.Transfer, send)
		held := 0.0
		if st.InFlight > 0 {
			held = st.Memory.Activations / st.InFlight * share
		}
		costs.Activation = append(costs.Activation, held)
	}
	return costs, nil
}

// chunkLoads is what each chunk takes for one micro-batch.
func chunkLoads(e *plan.Estimator, s plan.Strategy) ([]float64, error) {
	n := max(1, s.PP) * max(1, s.VPP)
	sizes := s.Layers
	if len(sizes) == 0 {
		sizes = evenly(e.Workload().Model.Layers, n)
	}
	if len(sizes) != n {
		return nil, fmt.Errorf("strategy: layers of %d chunks: want %d", len(sizes), n)
	}
	loads := make([]float64, n)
	at := 0
	for c, size := range sizes {
		layers, embedding, head, err := e.Loads(s, s.RankOf(c))
		if err != nil {
			return nil, err
		}
		for _, x := range layers[at : at+size] {
			loads[c] += x
		}
		at += size
		if c == 0 {
			loads[c] += embedding
		}
		if c == n-1 {
			loads[c] += head
		}
	}
	return loads, nil
}

// sendTime is how long a micro-batch is under way between two stages.
func sendTime(e *plan.Estimator, s plan.Strategy) float64 {
	if s.PP <= 1 {
		return 0
	}
	w := e.Workload()
	tp, cp, dp := max(1, s.TP), max(1, s.CP), max(1, s.DP)
	bytes := 2 * float64(max(1, s.Micro)*w.Seq/cp) * float64(w.Model.Hidden) / float64(tp)
	return e.Cluster().Collective(cluster.SendRecv, bytes, cluster.Axis{Size: 2, Stride: tp * cp * dp}).Seconds
}
