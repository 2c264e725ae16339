package executor

import (
	"slices"

	"github.com/galley-ml/galley/cost"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// Plan describes a step or forward pass before it runs.
type Plan struct {
	// Strategy has all defaults filled in; for one device it is the zero value.
	Strategy strategy.Strategy
	Stages   int
	Devices  []Device
	// Step has the stages, the schedule and the tape of each device.
	Step *step.Plan
}

// Device is the share of one device: its exact memory, operations and traffic.
type Device struct {
	Memory step.Memory
	Load   step.Load
}

// PlanOf returns the plan of a planned step.
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

// PlanStepOne returns the plan of the step as one program on one device. Nothing is compiled or allocated.
func (c Config) PlanStepOne(p *ir.Func) (*Plan, error) {
	call := step.Call{When: step.AsWhole, Donated: UpTo(0, len(c.Params)*(1+c.Optimizer.Slots())),
		Params:  slices.Concat(c.StatePieces(), []step.Piece{step.ScalarPiece(0), step.ScalarPiece(1)}),
		Results: slices.Concat([]step.Piece{step.ReportPiece(0), step.ReportPiece(1)}, c.StatePieces())}
	return c.planOne(
		p,
		step.WholeConfig{Weights: c.WholeWeights(), Scalars: []ir.Type{c.ScalarType(), c.ScalarType()}},
		call,
	)
}

// PlanForwardOne returns the plan of a forward pass on one device.
func (c Config) PlanForwardOne(p *ir.Func) (*Plan, error) {
	var call step.Call
	w := step.WholeConfig{Kind: step.ForwardPass, Weights: c.WholeWeights()}
	for i := range c.Params {
		call.Params, w.Weights[i].Slots = append(call.Params, step.WeightPiece(i)), nil
	}
	for i := range p.Results() {
		call.Results = append(call.Results, step.ResultPiece(0, i))
	}
	return c.planOne(p, w, call)
}

// planOne returns the plan of one call of a program on one device; its parameters after those of the call are
// the batch.
func (c Config) planOne(p *ir.Func, w step.WholeConfig, call step.Call) (*Plan, error) {
	p, err := pass.Optimize(p)
	if err != nil {
		return nil, err
	}
	fused, err := local(p)
	if err != nil {
		return nil, err
	}
	m := OneDevice()
	w.Mesh, w.Variant, w.Inputs = m, []int{0}, [][]ir.Type{nil}
	for i, v := range p.Params()[len(call.Params):] {
		call.Params = append(call.Params, step.InputPiece(0, i))
		w.Inputs[0] = append(w.Inputs[0], v.Type())
	}
	call.Part, call.Local = step.PartOn(p, m), func(int) (*ir.Func, error) { return fused, nil }
	w.Calls = []step.Call{call}
	s, err := step.NewWhole(w)
	if err != nil {
		return nil, err
	}
	return PlanOf(strategy.Strategy{}, s), nil
}

// OneDevice returns a mesh of one device.
func OneDevice() *mesh.Mesh {
	m, err := mesh.New([]mesh.Axis{{Name: strategy.DataAxis, Size: 1}}, 0)
	if err != nil {
		panic(err) // cannot fail: it is a valid mesh
	}
	return m
}

// WholeWeights returns the parameters, replicated on every device, with the optimizer's slots.
func (c Config) WholeWeights() []step.State {
	var list []step.State
	for i, p := range c.Params {
		whole := mesh.Whole(len(p.Type.Shape))
		w := step.Weight{Name: p.Name, Type: p.Type, Buffer: p.Buffer, Fixed: p.Fixed,
			Layouts: step.Layouts{Use: whole, Rest: whole, Sum: whole, Slot: whole}}
		list = append(list, step.State{Slots: c.SlotTypes(i), Weight: w})
	}
	return list
}

// StatePieces returns the parameters, then their slots, in the order of a step's inputs and results.
func (c Config) StatePieces() []step.Piece {
	var list []step.Piece
	for i := range c.Params {
		list = append(list, step.WeightPiece(i))
	}
	for i := range c.Params {
		for k := range c.SlotTypes(i) {
			list = append(list, step.SlotPiece(i, k))
		}
	}
	return list
}

// Optimize runs the passes that every program of one device gets before it is compiled.
func Optimize(p *ir.Func) (*ir.Func, error) {
	p, err := pass.Optimize(p)
	if err != nil {
		return nil, err
	}
	return local(p)
}

// local runs the passes of one device on a program that is not split.
func local(p *ir.Func) (*ir.Func, error) {
	p, err := pass.Fuse(p)
	if err != nil {
		return nil, err
	}
	return Config{}.OptimizeLocal(p)
}

// Compile optimises a program and allocates the memory that it needs on a device.
func Compile(d *cpu.Device, p *ir.Func, o cpu.Options) (*cpu.Executable, error) {
	p, err := Optimize(p)
	if err != nil {
		return nil, err
	}
	return d.Compile(p, o)
}

// Cost returns the cost of the plan on each device.
func (p *Plan) Cost() *cost.Cost {
	if p == nil {
		return nil
	}
	c := &cost.Cost{Strategy: p.Strategy}
	for _, d := range p.Devices {
		m, l := d.Memory, d.Load
		c.Devices = append(c.Devices, cost.Device{
			Weights: m.Weights, Slots: m.Slots, Sums: m.Sums, Step: m.Step,
			Flops: l.Flops, Sent: l.Sent, Collectives: l.Collectives, Messages: l.Messages,
		})
	}
	return c
}
