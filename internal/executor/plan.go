package executor

import (
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/strategy"
)

// Plan is what is known of a step, or of a forward pass, before it runs.
type Plan struct {
	// Strategy is complete; that of one device is the zero value.
	Strategy strategy.Strategy
	Stages   int
	Devices  []Device
	// Step is the plan of the devices of a strategy, with their tapes; nil on one device.
	Step *step.Plan
}

// Device is one device's share: its memory to the byte, and what it does.
type Device struct {
	Memory step.Memory
	Load   step.Load
}

// PlanOf is the plan of the devices of a strategy.
func PlanOf(s strategy.Strategy, p *step.Plan) *Plan {
	out := &Plan{Strategy: s, Stages: len(p.Stages), Step: p}
	for d := range p.Devices() {
		if !p.Has(d) {
			out.Devices = append(out.Devices, Device{})
			continue
		}
		out.Devices = append(out.Devices, Device{Memory: p.Memory(d), Load: p.Load(d)})
	}
	return out
}

// PlanOne is the plan of a program on one device, which is given the parameters and so many slots of each.
// Nothing is compiled, and no memory is taken.
func (c Config) PlanOne(p *ir.Func, slots int, o cpu.Options) (*Plan, error) {
	p, err := Optimize(p)
	if err != nil {
		return nil, err
	}
	memory, err := cpu.MemoryOf(p, o)
	if err != nil {
		return nil, err
	}
	d := Device{Load: step.LoadOf(p)}
	for i, p := range c.Params {
		d.Memory.Weights += p.Type.Bytes()
		for _, t := range c.SlotTypes(i)[:slots] {
			d.Memory.Slots += t.Bytes()
		}
	}
	d.Memory.Step = memory.Peak() - d.Memory.Weights - d.Memory.Slots
	return &Plan{Stages: 1, Devices: []Device{d}}, nil
}

// Optimize is what is done to every program of one device before it is compiled.
func Optimize(p *ir.Func) (*ir.Func, error) {
	p, err := pass.Optimize(p)
	if err != nil {
		return nil, err
	}
	return pass.Fuse(p)
}

// Compile optimises a program and takes the memory that it needs on a device.
func Compile(d *cpu.Device, p *ir.Func, o cpu.Options) (*cpu.Executable, error) {
	p, err := Optimize(p)
	if err != nil {
		return nil, err
	}
	return d.Compile(p, o)
}
