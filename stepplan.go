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

// DeviceMemory is the memory of one device in bytes: Weights, the optimizer's Slots and gradient Sums persist
// between steps, Step is the additional peak within a step. Peak returns the total.
type DeviceMemory = step.Memory

// StepPlan describes a training step on many devices before it runs.
type StepPlan struct {
	Strategy Strategy
	// Stages is the number of pipeline stages, Memory the exact memory of each device.
	Stages int
	Memory []DeviceMemory
	// Step has the stages, the schedule and the tape of each device, and prints.
	Step *step.Plan
	cost *Cost
}

// Cost returns the cost of the step on each device.
func (p *StepPlan) Cost() *Cost { return p.cost }

// Plan plans the step for batches of the given types without running it or allocating memory. It finds every
// mismatch of strategy and model, and every collective whose members would disagree.
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

// PlanStep is like Trainer.Plan for a config whose parameters need no values, only shapes.
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

// tapes returns the planned step, for callers that read the devices' programs.
func (t *Trainer) tapes(who string, batch []Type) (*step.Plan, error) {
	p, err := t.exec.Plan(batch...)
	if err != nil {
		return nil, err
	}
	if t.c.Backend != nil {
		return nil, fmt.Errorf("%s: the step runs on %s: want in-process devices, without a Backend", who,
			t.c.Backend.Name())
	}
	return p.Step, nil
}

// Peak returns the memory of the device that needs most.
func (p *StepPlan) Peak() DeviceMemory {
	var most DeviceMemory
	for _, m := range p.Memory {
		if m.Peak() > most.Peak() {
			most = m
		}
	}
	return most
}

// String returns a one-line summary.
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

// MemoryRequired returns the host memory, in bytes, that training on batches of the given types needs on all
// in-process devices together, in addition to the initial parameter values. Nothing runs. It returns 0 for
// eager steps and backends, which are not planned.
func (t *Trainer) MemoryRequired(batch ...Type) (bytes int, err error) {
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
	if p.Step.Whole { // one device uses the memory of the initial values
		for _, x := range t.c.Params {
			bytes -= x.Type.Bytes()
		}
	}
	return bytes, nil
}
