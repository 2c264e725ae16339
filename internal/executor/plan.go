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
	// Step is the tapes of the devices; nil on one device and for a forward pass.
	Step *step.Step
}

// Device is one device's share: its memory to the byte, and what it does.
type Device struct {
	Memory step.Memory
	Load   step.Load
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
