package tapes

import (
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

// fill copies the state to a new runner: from the previous one, a checkpoint or the parameters.
func (e *Executor) fill(r *step.Runner) error {
	for _, x := range r.Tensors() {
		read, err := e.source(x, r.Plan)
		if err == nil && read != nil { // a tensor without a source starts as zeros
			err = r.Load(x, read)
		}
		if err != nil {
			return err
		}
	}
	e.put = nil
	return e.closeSaved()
}

// Put replaces a tensor of the state: on the devices or, before their first step, in the checkpoint that they
// continue from. A 16-bit parameter is replaced together with its master weight.
func (e *Executor) Put(t executor.Tensor, a array.Array) error {
	list := []step.Tensor{e.h.fullPrecision(t)}
	if t.Slot < 0 && e.h.Masters() > 0 {
		list = append(list, step.Tensor{Weight: t.Param, Slot: -1})
	}
	for _, x := range list {
		if e.runner == nil {
			if e.put == nil {
				e.put = map[step.Tensor]array.Array{}
			}
			e.put[x], e.copies = a, nil
			continue
		}
		if err := e.runner.Load(x, wholeSource(func() (array.Array, error) { return a, nil })); err != nil {
			return err
		}
	}
	return nil
}

// boxReader reads a box of a whole tensor into an array.
type boxReader = func(box mesh.Box, dst array.Array) error

// source returns a reader of a tensor for the devices of a plan; nil means that there is no value.
func (e *Executor) source(x step.Tensor, p *step.Plan) (boxReader, error) {
	h, master := e.h, x.Slot >= 0 && x.Slot < e.h.Masters()
	switch {
	case e.runner != nil:
		return e.fromDevices(x, p)
	case e.put[x].IsValid():
		return wholeSource(func() (array.Array, error) { return e.put[x], nil }), nil
	case e.saved != nil:
		name, t1 := h.savedName(x), h.c.Params[x.Weight].Type
		return castSource(t1.DType, func(box mesh.Box, dst array.Array) error {
			return e.saved.ReadInto(dst, name, box)
		}), nil
	case x.Slot < 0 || master:
		return h.initialValue(h.c.Params[x.Weight]), nil
	}
	return nil, nil
}

// fromDevices returns a reader of a tensor from the devices that hold it now: from its own if every process
// holds what it needs, else gathered, a collective that all processes take part in.
func (e *Executor) fromDevices(x step.Tensor, p *step.Plan) (boxReader, error) {
	near, err := e.runner.LocalFor(x, p)
	if err != nil {
		return nil, err
	}
	if near {
		return func(box mesh.Box, dst array.Array) error { return e.runner.ReadLocal(x, box, dst) }, nil
	}
	a, err := e.runner.Read(x)
	return wholeSource(func() (array.Array, error) { return a, nil }), err
}

// initialValue returns a reader of a parameter's initial value: given, loaded from a file or drawn.
func (h *planner) initialValue(p *nn.Param) boxReader {
	switch {
	case p.Value != nil:
		return wholeSource(func() (array.Array, error) { return runtime.Read(p.Value) })
	case h.c.Load != nil:
		return func(box mesh.Box, dst array.Array) error { return h.c.Load(p, box, dst) }
	}
	return castSource(p.Type.DType, func(box mesh.Box, dst array.Array) error {
		return p.Draw(h.c.Device, box, dst)
	})
}

// wholeSource reads boxes of an array that is made on first use.
func wholeSource(whole func() (array.Array, error)) boxReader {
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

// castSource reads boxes of a dtype into arrays of any dtype.
func castSource(dtype array.DType, read boxReader) boxReader {
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

// fullPrecision returns the tensor that holds a piece of the state in full precision: the master weight
// instead of a 16-bit copy.
func (h *planner) fullPrecision(t executor.Tensor) step.Tensor {
	return step.Tensor{Weight: t.Param, Slot: h.Masters() + t.Slot}
}

// savedName returns the name of a tensor in checkpoints, which do not depend on the strategy.
func (h *planner) savedName(x step.Tensor) string {
	if x.Slot < h.Masters() {
		return h.c.Params[x.Weight].Name
	}
	return executor.SlotName(h.c.Params[x.Weight].Name, x.Slot-h.Masters())
}

// Reader reads the state from the devices or, before their first step, from the checkpoint that they continue
// from.
func (e *Executor) Reader() (executor.Reader, error) {
	return e.reader(func(x step.Tensor) (array.Array, error) { return e.runner.Read(x) }), nil
}

// ReaderTo is like Reader for one process: the others take part and receive no arrays.
func (e *Executor) ReaderTo(process int) (executor.Reader, error) {
	return e.reader(func(x step.Tensor) (array.Array, error) { return e.runner.ReadTo(x, process) }), nil
}

// reader is like Reader, given a function that reads from the devices.
func (e *Executor) reader(running func(x step.Tensor) (array.Array, error)) executor.Reader {
	return func(t executor.Tensor) (array.Array, error) {
		switch {
		case e.runner != nil:
			return running(e.h.fullPrecision(t))
		case e.put[e.h.fullPrecision(t)].IsValid():
			return e.put[e.h.fullPrecision(t)], nil
		case e.saved != nil:
			return e.saved.ReadWhole(e.h.c.Name(t))
		}
		return array.Array{}, errNotStarted
	}
}

var errNotStarted = errors.New("checkpoint: the trainer has taken no step: its state is what it was " +
	"created with")

// Values in checkpoints besides tensors: the loss scale, and the number of good steps until it grows.
const (
	scaleScalar = "loss_scale"
	goodScalar  = "loss_scale_good_steps"
)

// Save returns the part of the state that this process's devices hold.
func (e *Executor) Save() (s checkpoint.State, err error) {
	if e.runner == nil {
		return s, errNotStarted
	}
	for _, x := range e.runner.Tensors() {
		if x.Slot < e.h.Masters()-1 { // a 16-bit copy of the master weight
			continue
		}
		l, parts, err := e.runner.Parts(x)
		if err != nil {
			return s, err
		}
		t, err := checkpoint.Spread(e.h.savedName(x), l, e.runner.Type(x).DType, parts)
		if err != nil {
			return s, err
		}
		s.Tensors = append(s.Tensors, t)
	}
	s.Scalars = append(s.Scalars, checkpoint.Float(scaleScalar, e.scale.Scale),
		checkpoint.Int(goodScalar, int64(e.scale.Good)))
	return s, nil
}

// Load keeps a checkpoint, to be read when the step is planned.
func (e *Executor) Load(r *checkpoint.Reader) error {
	if x, err := r.Meta().Float(scaleScalar); err == nil && e.scale.Scale > 1 && x > 1 {
		good, _ := r.Meta().Int(goodScalar)
		e.scale = optim.LossScale{Scale: x, Good: int(good)}
	}
	if e.runner != nil {
		e.runner.Close()
		e.runner = nil
	}
	e.saved, e.put = r, nil
	return nil
}
