package tapes

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// forward is a forward pass on the devices of a strategy: micro-batch by micro-batch, and stage by stage.
type forward struct {
	e *Executor
	f executor.Func
	// planned is the programs by the types of their batches.
	planned map[string]*microForwards
}

// Forward makes a forward pass of f.
func (e *Executor) Forward(f executor.Func) executor.Forward {
	return &forward{e: e, f: f, planned: map[string]*microForwards{}}
}

// Close has nothing to give back: the devices are the executor's.
func (f *forward) Close() error { return nil }

// microForwards is the programs for batches of one size: one for each kind of micro-batch.
type microForwards struct {
	cut      *executor.Cutting
	variant  []int
	programs []*step.Forward
}

// Run runs a batch micro-batch by micro-batch.
func (f *forward) Run(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	m, err := f.programs(executor.TypesOf(batch))
	if err != nil {
		return nil, nil, err
	}
	weights, err := f.e.restingWeights()
	if err != nil {
		return nil, nil, err
	}
	runner, err := f.e.forwardRunner()
	if err != nil {
		return nil, nil, err
	}
	micros, err := m.cut.Micros(batch, 0)
	if err != nil {
		return nil, nil, err
	}
	var parts [][]array.Array
	for i, micro := range micros {
		out, err := runner.Run(ctx, m.programs[m.variant[i]], weights, micro)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, out)
	}
	return parts, m.cut.Rows, nil
}

// programs is the pass for batches of these types.
func (f *forward) programs(types []ir.Type) (*microForwards, error) {
	key := fmt.Sprint(types)
	if m := f.planned[key]; m != nil {
		return m, nil
	}
	m, err := f.e.h.newForward(types, f.f)
	if err == nil {
		f.planned[key] = m
	}
	return m, err
}

// Plan is what a run takes.
func (f *forward) Plan(batch ...ir.Type) (*executor.Plan, error) {
	m, err := f.programs(batch)
	if err != nil {
		return nil, err
	}
	s := f.e.h.Strategy
	p := &executor.Plan{Strategy: s, Stages: f.e.h.Schedule.Stages,
		Devices: make([]executor.Device, s.Devices())}
	for i := range p.Devices {
		d := &p.Devices[i]
		for _, v := range m.variant {
			memory, l := m.programs[v].Memory(i), m.programs[v].Load(i)
			d.Memory.Weights, d.Memory.Step = memory.Weights, max(d.Memory.Step, memory.Step)
			d.Load.Flops, d.Load.Sent = d.Load.Flops+l.Flops, d.Load.Sent+l.Sent
			d.Load.Collectives, d.Load.Messages = d.Load.Collectives+l.Collectives, d.Load.Messages+l.Messages
		}
	}
	return p, nil
}

// newForward plans a forward pass for batches of these types. A batch of fewer rows than a step has
// micro-batches makes fewer.
func (h *planner) newForward(batch []ir.Type, f executor.Func) (*microForwards, error) {
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return nil, err
	}
	p, err := h.c.TraceWith("forward", h.paramTypes(), batch,
		func(in []*op.Tensor) []*op.Tensor {
			in[0].Scope().(*ir.Builder).CaptureAs(h.shorten)
			return f(h.shortened(in))
		})
	if err != nil {
		return nil, err
	}
	m := &microForwards{}
	micros := executor.Spread(rows, max(1, min(rows, h.Strategy.Micro)))
	list, variant, cut, err := executor.CutProgram(p, len(h.c.Params), batch, micros, nil,
		executor.UpTo(0, len(p.Results())))
	if err != nil {
		return nil, err
	}
	m.cut, m.variant = cut, variant
	for _, p := range list {
		planned, err := h.planForward(p, len(batch))
		if err != nil {
			return nil, err
		}
		m.programs = append(m.programs, planned)
	}
	return m, nil
}

// planForward plans a micro-batch.
func (h *planner) planForward(p *ir.Func, batch int) (*step.Forward, error) {
	p, err := h.Apply(p)
	if err != nil {
		return nil, err
	}
	if p, err = pass.Optimize(p); err != nil {
		return nil, err
	}
	c := step.Config{Meshes: h.Meshes, Schedule: h.Schedule, Marks: h.Mark, SequenceParallel: h.SequenceParallel()}
	if c.Cuts, err = h.Cuts(p); err != nil {
		return nil, err
	}
	if c.Weights, err = h.Weights(p); err != nil {
		return nil, err
	}
	c.Batch = h.Inputs(p, batch)
	return step.NewForward(c, p)
}

// paramTypes is the types of the parameters as layers compute with them.
func (h *planner) paramTypes() []ir.Type {
	var list []ir.Type
	for _, p := range h.c.Params {
		list = append(list, h.Computed(p.Type))
	}
	return list
}

// forwardRunner is the devices that forward passes run on, started when they are first needed.
func (e *Executor) forwardRunner() (*step.ForwardRunner, error) {
	if e.forward == nil {
		w, err := e.h.c.World(e.h.Strategy.Devices())
		if err != nil {
			return nil, err
		}
		e.forward = step.StartForward(w)
	}
	return e.forward, nil
}

// restingWeights is the parameters in their layouts on the devices: those that are trained there or, before
// the first step, copies.
func (e *Executor) restingWeights() (step.Weights, error) {
	if e.runner != nil {
		e.copies = nil
		return e.runner.Weights(), nil
	}
	if e.copies == nil || !e.copies.current(e) {
		c, err := e.copyWeights()
		if err != nil {
			return nil, err
		}
		e.copies = c
	}
	return e.copies.part, nil
}

// weightCopies is the parameters cut for every device, while nothing is trained yet.
type weightCopies struct {
	// values and saved are what was copied.
	values []*op.Tensor
	saved  *checkpoint.Reader
	parts  []map[int]array.Array // by weight, by device
}

// current reports whether the parameters still are those that were copied.
func (w *weightCopies) current(e *Executor) bool {
	return w.saved == e.saved && slices.Equal(w.values, nn.Values(e.h.c.Params))
}

func (w *weightCopies) part(device, weight int) (array.Array, error) {
	a, ok := w.parts[weight][device]
	if !ok {
		return a, fmt.Errorf("parameter %d: device %d has no part of it", weight, device)
	}
	return a, nil
}

// copyWeights cuts the parameters, or what a checkpoint holds of them, as they will rest on the devices.
func (e *Executor) copyWeights() (*weightCopies, error) {
	h := e.h
	list, err := h.Weights(nil)
	if err != nil {
		return nil, err
	}
	w := &weightCopies{values: nn.Values(e.h.c.Params), saved: e.saved}
	for i, p := range e.h.c.Params {
		parts, read := map[int]array.Array{}, e.source(step.Tensor{Weight: i, Slot: -1})
		for _, m := range h.Meshes {
			l, err := list[i].Rest.Layout(m, p.Type.Shape)
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			for id, box := range l.Boxes() {
				parts[id] = array.New(list[i].Type.DType, box.Size...)
				if box.Empty() {
					continue
				}
				if err := read(box, parts[id]); err != nil {
					return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
				}
			}
		}
		w.parts = append(w.parts, parts)
	}
	return w, nil
}
