package galley

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/units"
)

// Span is something that a device of a strategy has done: work of the schedule, a collective, the wait for a
// message.
type Span = step.Span

// The kinds of spans.
const (
	SpanWork     = step.Work
	SpanExchange = step.Exchange
	SpanMessage  = step.Message
)

// DeviceMemory is what a device needs for a step, by part, in bytes.
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

// Cost is what the step takes on each device.
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
	p := &StepPlan{Strategy: plan.Strategy, Stages: plan.Stages, Step: plan.Step, cost: costOf(plan)}
	for _, d := range plan.Devices {
		p.Memory = append(p.Memory, d.Memory)
	}
	return p
}

// PlanStep is Plan of a trainer of this config, whose parameters need no values: shapes are enough.
func PlanStep(c TrainerConfig, batch ...Type) (p *StepPlan, err error) {
	defer fault.Recover("plan of the training step", &err)
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	plan, err := planned(c.executor(), batch)
	if err != nil {
		return nil, err
	}
	return stepPlan(plan), nil
}

// tapes is the step of a strategy, for what reads its devices' programs.
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

// Peak is the largest device's memory.
func (p *StepPlan) Peak() DeviceMemory {
	var most DeviceMemory
	for _, m := range p.Memory {
		if m.Peak() > most.Peak() {
			most = m
		}
	}
	return most
}

// String is the plan in one line.
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
