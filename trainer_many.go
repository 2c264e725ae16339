package galley

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
)

// manyDevices is a trainer's step on many devices.
type manyDevices struct {
	h      *hybrid
	types  string
	runner *step.Runner
	// cut is how the runner's batches become micro-batches.
	cut *cutting
	// started is the runner, for whoever asks from another goroutine what it does.
	started atomic.Pointer[step.Runner]
	scale   lossScale
	// forward is the devices of forward passes, copies the parameters there until training begins.
	forward *step.ForwardRunner
	copies  *weightCopies
	// plan is the step that was planned last, for batches of planTypes.
	plan      *step.Step
	planCut   *cutting
	planTypes string
	// saved is a checkpoint that the state is to be read from when the first step is planned.
	saved *checkpoint.Reader
}

func newManyDevices(c TrainerConfig) (*manyDevices, error) {
	h, err := newHybrid(c, *c.Strategy)
	if err != nil {
		return nil, err
	}
	return &manyDevices{h: h, scale: newLossScale(h.s.AMP)}, nil
}

// stepMany is one step on many devices.
func (t *Trainer) stepMany(m Metrics, batch []array.Array) (Metrics, error) {
	if t.trained.lost != nil {
		return m, t.trained.lost
	}
	if err := t.start(batch); err != nil {
		return m, err
	}
	parts, err := t.many.cut.micros(batch, t.step+1-t.skipped)
	if err != nil {
		return m, err
	}
	r, err := t.many.runner.Run(context.Background(), step.Input{
		Batch: parts, Scalars: []float64{m.LR, float64(t.step + 1 - t.skipped)}, Weight: t.many.weight(batch),
	})
	if err != nil {
		return m, t.tearing(err)
	}
	m.Loss, m.GradNorm = r.Loss, r.Norm
	t.step++
	t.changed()
	if t.many.h.s.AMP == "f16" && !bad(m.Loss) && t.many.scale.scale > 1 {
		m.Skipped = bad(m.GradNorm)
		t.many.scale = t.many.scale.next(m.Skipped)
		if m.Skipped {
			t.skipped++
			return m, nil
		}
	}
	if bad(m.Loss) || bad(m.GradNorm) {
		return m, &DivergedError{m}
	}
	return m, nil
}

// weight is what the sum of losses is multiplied with. A scale is meant for a mean, so it is spread over the batch.
func (d *manyDevices) weight(batch []array.Array) float64 {
	if d.scale.scale == 1 {
		return 1
	}
	return d.scale.scale / float64(largest(batch))
}

// largest is how many elements the largest tensor of a batch has.
func largest(batch []array.Array) (n int) {
	for _, a := range batch {
		n = max(n, a.Len())
	}
	return n
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
	s, err := t.many.planned(types)
	if err != nil {
		return err
	}
	w, err := inproc.New(s.Devices())
	if err != nil {
		return err
	}
	r, err := s.Start(w)
	if err != nil {
		return err
	}
	r.Watch(t.c.Watch)
	if err := t.fill(r); err != nil {
		r.Close()
		return err
	}
	if t.many.runner != nil {
		t.many.runner.Close()
	}
	t.many.runner, t.many.cut, t.many.types = r, t.many.planCut, key
	t.many.started.Store(r)
	return nil
}

// planned is the step for batches of these types.
func (d *manyDevices) planned(types []Type) (*step.Step, error) {
	if key := fmt.Sprint(types); d.plan == nil || d.planTypes != key {
		s, cut, err := d.h.newStep(types)
		if err != nil {
			return nil, err
		}
		d.plan, d.planCut, d.planTypes = s, cut, key
	}
	return d.plan, nil
}

// fill brings the state to a new runner: from the one before, from a checkpoint or from the parameters.
func (t *Trainer) fill(r *step.Runner) error {
	for _, x := range r.Tensors() {
		read := t.source(x)
		if read == nil {
			continue // it begins as zeros
		}
		if err := r.Load(x, read); err != nil {
			return err
		}
	}
	return t.closeSaved()
}

// reading writes a box of a whole tensor to an array.
type reading = func(box mesh.Box, dst array.Array) error

// source is where a tensor of the state comes from; nil is nowhere.
func (t *Trainer) source(x step.Tensor) reading {
	h, master := t.many.h, x.Slot >= 0 && x.Slot < t.many.h.masters()
	switch {
	case t.many.runner != nil:
		return wholeSource(func() (array.Array, error) { return t.many.runner.Read(x) })
	case t.many.saved != nil:
		name, t1 := h.savedName(x), h.c.Params[x.Weight].Type
		return castSource(t1.DType, func(box mesh.Box, dst array.Array) error { return t.many.saved.ReadInto(dst, name, box) })
	case x.Slot < 0 || master:
		return wholeSource(func() (array.Array, error) { return cpu.Read(h.c.Params[x.Weight].Value) })
	}
	return nil
}

// wholeSource reads boxes of an array that is made when it is first needed.
func wholeSource(whole func() (array.Array, error)) reading {
	var a array.Array
	return func(box mesh.Box, dst array.Array) (err error) {
		if !a.IsValid() {
			if a, err = whole(); err != nil {
				return err
			}
		}
		return castSource(a.DType(), func(box mesh.Box, dst array.Array) error {
			array.CopyBox(dst, make([]int, len(box.Size)), a, box.Start, box.Size)
			return nil
		})(box, dst)
	}
}

// castSource reads boxes of a dtype into arrays of any.
func castSource(dtype array.DType, read reading) reading {
	return func(box mesh.Box, dst array.Array) error {
		if dst.DType() == dtype {
			return read(box, dst)
		}
		wide := array.New(dtype, dst.Shape()...)
		if err := read(box, wide); err != nil {
			return err
		}
		for i := range wide.Len() {
			dst.Set(i, wide.At(i))
		}
		return nil
	}
}

// syncMany brings the parameters back from the devices of a strategy.
func (t *Trainer) syncMany(s *Session) error {
	if t.trained.lost != nil {
		return t.trained.lost
	}
	if t.many.runner == nil && t.many.saved == nil {
		return nil
	}
	for i, p := range t.c.Params {
		a, err := t.readMany(i)
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		p.Value = s.Tensor(a).Track()
	}
	return nil
}

// closeMany ends the devices of a strategy.
func (t *Trainer) closeMany() error {
	back := t.bringBack()
	if t.many.runner != nil {
		t.many.runner.Close()
		t.many.runner = nil
	}
	if t.many.forward != nil {
		t.many.forward.Close()
		t.many.forward = nil
	}
	t.trained.lost = errClosed
	return errors.Join(back, t.closeSaved())
}

func (t *Trainer) closeSaved() error {
	if t.many.saved == nil {
		return nil
	}
	defer func() { t.many.saved = nil }()
	return t.many.saved.Close()
}

// precise is the tensor of the state that holds a parameter's value in its own precision.
func (h *hybrid) precise(weight int) step.Tensor {
	return step.Tensor{Weight: weight, Slot: h.masters() - 1}
}

// savedName is what a tensor of the state is called in checkpoints, which do not depend on the strategy.
func (h *hybrid) savedName(x step.Tensor) string {
	if x.Slot < h.masters() {
		return h.c.Params[x.Weight].Name
	}
	return slotName(h.c.Params[x.Weight].Name, x.Slot-h.masters())
}
