package galley

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/nn"
)

// manyForward is a forward pass on the devices of a strategy, for batches of one size: a program for each kind of micro-batch.
type manyForward struct {
	cut      *cutting
	variant  []int
	programs []*step.Forward
}

// runMany runs a batch micro-batch by micro-batch.
func (f *Forward) runMany(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	m, err := f.planned(typesOf(batch))
	if err != nil {
		return nil, nil, err
	}
	weights, err := f.t.restingWeights()
	if err != nil {
		return nil, nil, err
	}
	runner, err := f.t.forwardRunner()
	if err != nil {
		return nil, nil, err
	}
	micros, err := m.cut.micros(batch, 0)
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
	return parts, m.cut.rows, nil
}

// planned is the pass for batches of these types.
func (f *Forward) planned(types []Type) (*manyForward, error) {
	key := fmt.Sprint(types)
	if m := f.many[key]; m != nil {
		return m, nil
	}
	m, err := f.t.many.h.newForward(types, f.f)
	if err == nil {
		f.many[key] = m
	}
	return m, err
}

// newForward plans a forward pass for batches of these types. A batch of fewer rows than a step has micro-batches makes fewer.
func (h *hybrid) newForward(batch []Type, f func([]*Tensor) []*Tensor) (*manyForward, error) {
	rows, err := rowsIn(batch)
	if err != nil {
		return nil, err
	}
	p, err := h.c.traceWith("forward", h.paramTypes(), batch, func(in []*Tensor) []*Tensor { return f(h.halved(in)) })
	if err != nil {
		return nil, err
	}
	m := &manyForward{}
	list, variant, cut, err := cutProgram(p, len(h.c.Params), batch, spread(rows, max(1, min(rows, h.s.Micro))), nil, upTo(0, len(p.Results())))
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
func (h *hybrid) planForward(p *Program, batch int) (*step.Forward, error) {
	p, err := h.shaped(p)
	if err != nil {
		return nil, err
	}
	if p, err = pass.Optimize(p); err != nil {
		return nil, err
	}
	c := step.Config{Meshes: h.meshes, Schedule: h.schedule, Marks: h.marks, Columns: h.columns()}
	if c.Cuts, err = h.cuts(p); err != nil {
		return nil, err
	}
	if c.Weights, err = h.weights(p); err != nil {
		return nil, err
	}
	c.Batch = h.batchShardings(p, batch)
	return step.NewForward(c, p)
}

// paramTypes is the types of the parameters as layers compute with them.
func (h *hybrid) paramTypes() []Type {
	var list []Type
	for _, p := range h.c.Params {
		list = append(list, h.computed(p.Type))
	}
	return list
}

// forwardRunner is the devices that forward passes run on, started when they are first needed.
func (t *Trainer) forwardRunner() (*step.ForwardRunner, error) {
	if t.many.forward == nil {
		w, err := inproc.New(t.many.h.s.Devices())
		if err != nil {
			return nil, err
		}
		t.many.forward = step.StartForward(w)
	}
	return t.many.forward, nil
}

// restingWeights is the parameters as they lie on the devices: those that are trained there or, before the first step, copies.
func (t *Trainer) restingWeights() (step.Weights, error) {
	if t.many.runner != nil {
		t.many.copies = nil
		return t.many.runner.Weights(), nil
	}
	if t.many.copies == nil || !t.many.copies.current(t) {
		c, err := t.copyWeights()
		if err != nil {
			return nil, err
		}
		t.many.copies = c
	}
	return t.many.copies.part, nil
}

// weightCopies is the parameters cut for every device, while nothing is trained yet.
type weightCopies struct {
	// values and saved are what was copied.
	values []*Tensor
	saved  *checkpoint.Reader
	parts  []map[int]array.Array // by weight, by device
}

// current reports whether the parameters still are those that were copied.
func (w *weightCopies) current(t *Trainer) bool {
	return w.saved == t.many.saved && slices.Equal(w.values, nn.Values(t.c.Params))
}

func (w *weightCopies) part(device, weight int) (array.Array, error) {
	a, ok := w.parts[weight][device]
	if !ok {
		return a, fmt.Errorf("parameter %d: device %d has no part of it", weight, device)
	}
	return a, nil
}

// copyWeights cuts the parameters, or what a checkpoint holds of them, as they will rest on the devices.
func (t *Trainer) copyWeights() (*weightCopies, error) {
	h := t.many.h
	list, err := h.weights(nil)
	if err != nil {
		return nil, err
	}
	w := &weightCopies{values: nn.Values(t.c.Params), saved: t.many.saved}
	for i, p := range t.c.Params {
		parts, read := map[int]array.Array{}, t.source(step.Tensor{Weight: i, Slot: -1})
		for _, m := range h.meshes {
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
