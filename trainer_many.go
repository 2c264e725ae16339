package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
)

// manyDevices is a trainer's step on many devices.
type manyDevices struct {
	h      *hybrid
	types  string
	runner *step.Runner
	// forward is the devices of forward passes, copies the parameters there until training begins.
	forward *step.ForwardRunner
	copies  *weightCopies
	// plans is the planned steps by the types of their batches.
	plans map[string]*step.Step
}

func newManyDevices(c TrainerConfig) (*manyDevices, error) {
	h, err := newHybrid(c, *c.Strategy)
	if err != nil {
		return nil, err
	}
	return &manyDevices{h: h, plans: map[string]*step.Step{}}, nil
}

// stepMany is one step on many devices.
func (t *Trainer) stepMany(m Metrics, batch []array.Array) (Metrics, error) {
	if err := t.start(batch); err != nil {
		return m, err
	}
	parts, err := t.many.h.micros(batch)
	if err != nil {
		return m, err
	}
	r, err := t.many.runner.Run(context.Background(), step.Input{
		Batch: parts, Scalars: []float64{m.LR, float64(t.step + 1)}, Weight: 1,
	})
	if err != nil {
		return m, err
	}
	m.Loss, m.GradNorm = r.Loss, r.Norm
	t.step++
	if bad(m.Loss) || bad(m.GradNorm) {
		return m, &DivergedError{m}
	}
	return m, nil
}

// micros cuts a batch into micro-batches.
func (h *hybrid) micros(batch []array.Array) ([][]array.Array, error) {
	rows, err := h.rows(batch[0].Shape()[0])
	if err != nil {
		return nil, err
	}
	parts := make([][]array.Array, len(rows))
	at := 0
	for m, n := range rows {
		for _, a := range batch {
			if a.Shape()[0] != batch[0].Shape()[0] {
				return nil, fmt.Errorf("batch: tensors of %d and %d rows: want as many", batch[0].Shape()[0], a.Shape()[0])
			}
			parts[m] = append(parts[m], a.Rows(at, at+n))
		}
		at += n
	}
	return parts, nil
}

// start plans the step for batches of these types and moves the state there.
func (t *Trainer) start(batch []array.Array) error {
	var types []Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	key := fmt.Sprint(types)
	if t.many.runner != nil && t.many.types == key {
		return nil
	}
	s, err := t.plan(types)
	if err != nil {
		return err
	}
	r, err := s.Start()
	if err != nil {
		return err
	}
	if err := t.fill(r); err != nil {
		r.Close()
		return err
	}
	if t.many.runner != nil {
		t.many.runner.Close()
	}
	t.many.runner, t.many.types = r, key
	return nil
}

// fill brings the state to a new runner: from the one before, or from the parameters.
func (t *Trainer) fill(r *step.Runner) error {
	for _, x := range r.Tensors() {
		var a array.Array
		var err error
		switch {
		case t.many.runner != nil:
			a, err = t.many.runner.Read(x)
		case x.Slot < 0:
			a, err = cpu.Read(t.c.Params[x.Weight].Value)
		default:
			continue // they begin as zeros
		}
		if err != nil {
			return err
		}
		if err := r.Write(x, a); err != nil {
			return err
		}
	}
	return nil
}

// Sync brings the parameters back from the devices of a strategy, so that the model can be used. Without one they are there.
func (t *Trainer) Sync() error {
	if t.many == nil || t.many.runner == nil {
		return nil
	}
	for i, p := range t.c.Params {
		a, err := t.many.runner.Read(step.Tensor{Weight: i, Slot: -1})
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		p.Value = t.session.Tensor(a).Track()
	}
	return nil
}

// Close ends the devices of a strategy.
func (t *Trainer) Close() {
	if t.many != nil && t.many.runner != nil {
		t.many.runner.Close()
	}
	if t.many != nil && t.many.forward != nil {
		t.many.forward.Close()
	}
}
