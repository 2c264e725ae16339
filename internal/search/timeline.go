package search

import (
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Simulated is a step of a plan, action by action.
type Simulated struct {
	Plan     Plan
	Timeline *pipeline.Timeline
	// Tail holds what follows the last backward pass: gradients, optimizer, offloading.
	Tail []Part
	// Held is the bytes that a device of each rank holds besides the activations of micro-batches.
	Held []float64
}

// Step returns the total seconds.
func (s *Simulated) Step() float64 {
	t := s.Timeline.Makespan
	for _, p := range s.Tail {
		t += p.Value
	}
	return t
}

// Simulate runs the schedule of a strategy with the times of its stages; micros is the number of
// micro-batches, 0 for all of a step.
func Simulate(e *plan.Estimator, s strategy.Strategy, micros int) (*Simulated, error) {
	est, err := e.Exact(s)
	if err != nil {
		return nil, err
	}
	schedule, costs, err := e.Pipeline(s)
	if err != nil {
		return nil, err
	}
	if micros > 0 && micros < schedule.Micros {
		if schedule, err = pipeline.Generate(schedule.Name,
			pipeline.Config{Ranks: len(schedule.Ranks), Micros: micros, Chunks: schedule.Chunks()}); err != nil {
			return nil, err
		}
	}
	kept := make([]float64, len(est.Stages)) // of one micro-batch, by rank
	for c := range costs.Activation {
		costs.Activation[c] *= 1 - s.Offload.Activations
		kept[schedule.Place[c]] += costs.Activation[c]
	}
	line, err := pipeline.Simulate(schedule, costs)
	if err != nil {
		return nil, err
	}
	out := &Simulated{Plan: Plan{s, est}, Timeline: line}
	p := est.Parts
	// The stages' times already include what ZeRO-3 gathers for every micro-batch: the tail is the remainder.
	busy := 0.0
	for _, st := range est.Stages {
		busy = max(busy, st.Forward+st.Backward)
	}
	data := max(0, est.Step-p.Bubble-float64(s.Micros(e.Workload().Batch))*busy-p.Optimizer-p.Offload)
	if data < 1e-9*est.Step {
		data = 0
	}
	for _, x := range []Part{{"reduce gradients", data}, {"optimizer", p.Optimizer}, {"offload", p.Offload}} {
		if x.Value > 0 {
			out.Tail = append(out.Tail, x)
		}
	}
	least, err := e.Least(s) // as if chunks were equal: the timeline shows what they hold beyond that
	if err != nil {
		return nil, err
	}
	for r, st := range least.Stages {
		out.Held = append(out.Held, st.Memory.Total()-st.InFlight*kept[r])
	}
	return out, nil
}
