package galley

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/units"
)

// Span is something that a Device of a strategy has done, by Kind: work of the schedule, a collective, the
// wait for a message; its Name, Start and End, and the bytes Live on the device then. Of a collective it
// tells Since when it was under way, over which Axes, in which Group, and the Bytes sent and received.
type Span = step.Span

// The kinds of spans.
const (
	SpanWork       = step.Work
	SpanExchange   = step.Exchange
	SpanMessage    = step.Message
	SpanCollective = step.Collective
)

// DeviceMemory is what a device needs for a step, in bytes: Weights, the optimizer's Slots and gradients'
// Sums live from step to step, Step is what else it takes at once. Peak is all of it.
type DeviceMemory = step.Memory

// StepPlan is what is known of a training step on many devices before it runs.
type StepPlan struct {
	Strategy Strategy
	// Stages is how many stages there are, Memory what each device takes, to the byte.
	Stages int
	Memory []DeviceMemory
	// Step is stages, schedule and the devices' tapes, which print.
	Step *step.Plan
	cost *Cost
}

// Cost returns what the step takes on each device.
func (p *StepPlan) Cost() *Cost { return p.cost }

// Plan plans the step for batches of these types: nothing runs and no memory is taken. Whatever is wrong with
// the strategy for this model, and every collective that would not meet its like, is found here.
func (t *Trainer) Plan(batch ...Type) (p *StepPlan, err error) {
	defer fault.Recover("plan of the training step", &err)
	plan, err := t.exec.Plan(batch...)
	if err != nil {
		return nil, err
	}
	return stepPlan(plan), nil
}

func stepPlan(plan *executor.Plan) *StepPlan {
	p := &StepPlan{Strategy: plan.Strategy, Stages: plan.Stages, Step: plan.Step, cost: plan.Cost()}
	for _, d := range plan.Devices {
		p.Memory = append(p.Memory, d.Memory)
	}
	return p
}

// PlanStep returns Plan of a trainer of this config, whose parameters need no values: shapes are enough.
func PlanStep(c TrainerConfig, batch ...Type) (p *StepPlan, err error) {
	defer fault.Recover("plan of the training step", &err)
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	plan, err := choose.Plan(c.executor(), batch...)
	if err != nil {
		return nil, err
	}
	return stepPlan(plan), nil
}

// tapes returns the step of a strategy, for what reads its devices' programs.
func (t *Trainer) tapes(who string, batch []Type) (*step.Plan, error) {
	p, err := t.exec.Plan(batch...)
	if err != nil {
		return nil, err
	}
	if t.c.Backend != nil {
		return nil, fmt.Errorf("%s: the step is one of %s: want one of in-process devices", who, t.c.Backend.Name())
	}
	return p.Step, nil
}

// Peak returns the largest device's memory.
func (p *StepPlan) Peak() DeviceMemory {
	var most DeviceMemory
	for _, m := range p.Memory {
		if m.Peak() > most.Peak() {
			most = m
		}
	}
	return most
}

// String returns the plan in one line.
func (p *StepPlan) String() string {
	m := p.Peak()
	var parts []string
	for _, x := range []struct {
		name  string
		bytes int
	}{{"parameters", m.Weights}, {"gradients", m.Sums}, {"optimizer", m.Slots}, {"step", m.Step}} {
		parts = append(parts, fmt.Sprintf("%s %s", x.name, units.Bytes(float64(x.bytes))))
	}
	return fmt.Sprintf("%d device(s), %s: each takes at most %d bytes (%s: %s)",
		len(p.Memory), p.Strategy, m.Peak(), units.Bytes(float64(m.Peak())), strings.Join(parts, ", "))
}

// Needs returns the bytes of the host's memory that training on batches of these types takes besides the
// parameters' first values, on all in-process devices together. Nothing is run or taken. A step that runs op
// by op, or on a backend, is not planned: it is told as 0.
func (t *Trainer) Needs(batch ...Type) (bytes int, err error) {
	defer fault.Recover("memory of a step", &err)
	if t.c.Backend != nil || t.c.Mode == Eager && t.c.Strategy == nil {
		return 0, nil
	}
	p, err := t.exec.Plan(batch...)
	if err != nil {
		return 0, err
	}
	for _, d := range p.Devices {
		bytes += d.Memory.Peak()
	}
	if p.Step.Whole { // one device has the parameters' first values for its own
		for _, x := range t.c.Params {
			bytes -= x.Type.Bytes()
		}
	}
	return bytes, nil
}
