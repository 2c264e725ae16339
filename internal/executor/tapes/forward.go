package tapes

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// forward is a forward pass on the devices of a strategy: the forward half of a step, in micro-batches.
type forward struct {
	e *Executor
	f executor.Func
	// planned holds plans by the types of batches.
	planned map[string]*plannedForward
}

// Forward makes a forward pass of f.
func (e *Executor) Forward(f executor.Func) executor.Forward {
	return &forward{e: e, f: f, planned: map[string]*plannedForward{}}
}

// Close does nothing: the devices belong to the executor.
func (f *forward) Close() error { return nil }

// plannedForward is the pass for batches of one size.
type plannedForward struct {
	cut  *executor.Cutting
	plan *step.Plan
}

// Run runs a batch in micro-batches.
func (f *forward) Run(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	p, err := f.plan(executor.TypesOf(batch))
	if err != nil {
		return nil, nil, err
	}
	runner, err := f.e.forwardRunner()
	if err != nil {
		return nil, nil, err
	}
	weights, err := f.e.storedWeights(runner)
	if err != nil {
		return nil, nil, err
	}
	micros, err := p.cut.Micros(batch, 0)
	if err != nil {
		return nil, nil, err
	}
	parts, err := runner.Run(ctx, p.plan, weights, micros)
	return parts, p.cut.Rows, err
}

// plan returns the pass for batches of these types.
func (f *forward) plan(types []ir.Type) (*plannedForward, error) {
	key := fmt.Sprint(types, f.e.h.Decided())
	if p := f.planned[key]; p != nil {
		return p, nil
	}
	p, err := f.e.h.newForward(types, f.f)
	if err == nil {
		f.planned[key] = p
	}
	return p, err
}

// Plan returns the plan of a run.
func (f *forward) Plan(batch ...ir.Type) (*executor.Plan, error) {
	p, err := f.plan(batch)
	if err != nil {
		return nil, err
	}
	return executor.PlanOf(f.e.h.Strategy, p.plan), nil
}

// newForward plans a forward pass for batches of these types. A batch with fewer rows than a step has
// micro-batches is split into fewer.
func (h *planner) newForward(batch []ir.Type, f executor.Func) (*plannedForward, error) {
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return nil, err
	}
	p, err := h.c.TraceWith("forward", h.paramTypes(), batch,
		func(in []*op.Tensor) []*op.Tensor {
			in[0].Scope().(*ir.Builder).CaptureAs(h.castToCompute)
			return f(h.castBatch(in))
		})
	if err != nil {
		return nil, err
	}
	placed, err := h.PlaceForward(p)
	if err != nil {
		return nil, err
	}
	micros := executor.Spread(rows, max(1, min(rows, h.Strategy.Micro)))
	list, variant, cut, err := executor.CutProgram(placed.Func, len(h.c.Params), batch, micros, nil,
		executor.UpTo(0, len(p.Results())))
	if err != nil {
		return nil, err
	}
	c := step.Config{Marks: h.Mark, Variant: variant}
	if err := h.setLayouts(&c, placed, list, len(batch)); err != nil {
		return nil, err
	}
	plan, err := step.NewForward(c)
	return &plannedForward{cut, plan}, err
}

// paramTypes returns the types of the parameters as layers compute with them.
func (h *planner) paramTypes() []ir.Type {
	var list []ir.Type
	for _, p := range h.c.Params {
		list = append(list, h.Entering(p))
	}
	return list
}

// forwardRunner returns the devices that forward passes run on, started when they are first needed.
func (e *Executor) forwardRunner() (*step.ForwardRunner, error) {
	if e.forward == nil {
		w, err := e.h.c.World(e.h.Devices())
		if err != nil {
			return nil, err
		}
		e.forward = step.StartForward(w)
	}
	return e.forward, nil
}

// storedWeights returns the parameters in their layouts on the devices: those being trained or, before the
// initialValue step, copies.
func (e *Executor) storedWeights(r *step.ForwardRunner) (step.Weights, error) {
	if e.runner != nil {
		e.copies = nil
		return e.runner.Weights(), nil
	}
	if e.copies == nil || !e.copies.current(e) {
		c, err := e.copyWeights(r)
		if err != nil {
			return nil, err
		}
		e.copies = c
	}
	return e.copies.part, nil
}

// weightCopies holds the shards of the parameters for every device of this process, before training starts.
type weightCopies struct {
	// values and saved are what was copied.
	values []*op.Tensor
	saved  *checkpoint.Reader
	parts  []map[int]array.Array // by weight, by device
}

// current reports whether the parameters are still the ones that were copied.
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

// copyWeights shards the parameters, or their values in a checkpoint, as they will be on the devices.
func (e *Executor) copyWeights(r *step.ForwardRunner) (*weightCopies, error) {
	h := e.h
	list, err := h.Weights(nil)
	if err != nil {
		return nil, err
	}
	w := &weightCopies{values: nn.Values(e.h.c.Params), saved: e.saved}
	for i, p := range e.h.c.Params {
		parts := map[int]array.Array{}
		read, err := e.source(step.Tensor{Weight: i, Slot: -1}, nil)
		if err != nil {
			return nil, err
		}
		for rank := range h.Meshes {
			at := list[i].LayoutsOn(h.Meshes, rank)
			l, err := at.Rest.Layout(at.Mesh, p.Type.Shape)
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			for id, box := range l.Boxes() {
				if !r.Has(id) {
					continue
				}
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
