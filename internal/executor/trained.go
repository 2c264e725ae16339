package executor

import (
	"errors"
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Trained manages the values of parameters that are on an executor's devices: they are copied to the
// host when they are first read after a step. If the executor keeps them in Params there is nothing to
// do.
type Trained struct {
	exec   Executor
	params []*nn.Param
	// version counts changes of the state; a value of an earlier version can no longer be read.
	version int
	// values are those that were last set in params.
	values []*op.Tensor
	// layouts holds the layouts of values that were on a mesh, to which they return.
	layouts map[int]op.Layout
	// lost is why the state can no longer be read or saved.
	lost error
}

// NewTrained returns the values of parameters that an executor trains.
func NewTrained(e Executor, params []*nn.Param) *Trained {
	t := &Trained{exec: e, params: params, layouts: map[int]op.Layout{}}
	for i, p := range params {
		if p.Value == nil {
			continue
		}
		if at, ok := op.LayoutOf(p.Value); ok {
			t.layouts[i] = at
		}
	}
	if e.HoldsParams() {
		t.values = nn.Values(params)
	}
	return t
}

// Lost returns why the state is lost; nil if it is not.
func (t *Trained) Lost() error { return t.lost }

// Ready returns an error if there is no state to continue from. It copies values that were set in parameters
// to the devices.
func (t *Trained) Ready() error {
	if t.lost != nil {
		return t.lost
	}
	return t.Adopt()
}

// Changed sets parameters to the state after a step; values are copied when first read.
func (t *Trained) Changed(step int) {
	if !t.exec.HoldsParams() {
		return
	}
	t.version++
	version := t.version
	reader := sync.OnceValues(t.exec.Reader)
	var mu sync.Mutex
	t.values = make([]*op.Tensor, len(t.params))
	for i, p := range t.params {
		if p.Value == nil {
			continue // a model that has only shapes on the host keeps only shapes
		}
		v := ir.Later(p.Value.Scope(), p.Type, func() (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if err := t.readable(version, step); err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			read, err := reader()
			var a array.Array
			if err == nil {
				a, err = read(Tensor{Param: i, Slot: -1})
			}
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			return t.store(i, p.Value.Scope(), a)
		})
		p.Value = v.Track()
		t.values[i] = p.Value
	}
}

// Loaded is like Changed for a checkpoint: it also recovers a lost state.
func (t *Trained) Loaded(step int) {
	t.lost = nil
	t.Changed(step)
}

// Adopt copies values that were set in parameters after training, by LoadState or by the caller, to the
// devices: training continues from them.
func (t *Trained) Adopt() error {
	for i, v := range t.values {
		p := t.params[i]
		if p.Value == v || p.Value == nil {
			continue
		}
		a, err := Value(p)
		if err == nil && !ir.TypeOf(a).Equal(p.Type) {
			err = fmt.Errorf("parameter %q: it was given %v: want %v", p.Name, ir.TypeOf(a), p.Type)
		}
		if err == nil {
			err = t.exec.Put(Tensor{Param: i, Slot: -1}, a)
		}
		if err != nil {
			return err
		}
		t.values[i] = p.Value
	}
	return nil
}

// Sync sets parameters to their values, as tensors of s or on their former meshes, if keep is set, and else
// to placeholders. In a job all processes call it, and one sets keep.
func (t *Trained) Sync(s *cpu.Session, keep bool) error {
	if !t.exec.HoldsParams() {
		return t.lost
	}
	values := make([]*op.Tensor, 0, len(t.params))
	err := t.Each(func(p *nn.Param, a array.Array) error {
		switch {
		case keep:
			v, err := t.value(len(values), s, a)
			if err != nil {
				return err
			}
			values = append(values, v)
		case p.Value != nil:
			values = append(values, remotePlaceholder(s, p))
		default:
			values = append(values, nil)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, p := range t.params {
		p.Value = values[i]
	}
	t.values = values
	return nil
}

// remotePlaceholder returns the placeholder of a value that another process has.
func remotePlaceholder(s *cpu.Session, p *nn.Param) *op.Tensor {
	return ir.Later(s, p.Type, func() (any, error) {
		return nil, fmt.Errorf(
			"parameter %q: its value is in the first process of the job, where Sync has brought it",
			p.Name,
		)
	}).Track()
}

// Each calls f with the value of every parameter, one after the other. In a job all processes call it, and
// the first one gets the values that are on devices.
func (t *Trained) Each(f func(p *nn.Param, a array.Array) error) error {
	if err := t.Ready(); err != nil {
		return err
	}
	read, err := t.firstReader()
	if err != nil {
		return err
	}
	for i, p := range t.params {
		a, err := read(Tensor{Param: i, Slot: -1})
		if err == nil {
			err = f(p, a)
		}
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	return nil
}

// value returns a parameter's value as a tensor of s, or on its mesh.
func (t *Trained) value(i int, s *cpu.Session, a array.Array) (*op.Tensor, error) {
	scope, p := op.Scope(s), t.params[i]
	if _, ok := t.layouts[i]; ok {
		scope = p.Value.Scope()
	}
	store, err := t.store(i, scope, a)
	if err != nil {
		return nil, err
	}
	return ir.Leaf(scope, p.Type, store).Track(), nil
}

// store returns the data of a parameter's tensor: on its mesh, if it was on one.
func (t *Trained) store(i int, s op.Scope, a array.Array) (any, error) {
	at, ok := t.layouts[i]
	w, world := s.(*runtime.Session)
	if !ok || !world {
		return a, nil
	}
	return w.Shard(a, at)
}

// firstReader returns a reader of parameters for the first process.
func (t *Trained) firstReader() (Reader, error) {
	if !t.exec.HoldsParams() {
		return func(x Tensor) (array.Array, error) { return Value(t.params[x.Param]) }, nil
	}
	if e, ok := t.exec.(Gatherer); ok {
		return e.ReaderTo(0)
	}
	return t.exec.Reader()
}

// readable returns an error if the state of a version no longer exists.
func (t *Trained) readable(version, step int) error {
	switch {
	case t.lost != nil:
		return t.lost
	case t.version != version:
		return fmt.Errorf("its value after %d steps is gone: training has gone on: read it before the next step",
			step)
	}
	return nil
}

// errClosed reports the use of a closed trainer.
var errClosed = errors.New("trainer: it has no state any more: it was closed: make another and Resume")

// Close reads all values that have not been read from the executor, so that they outlive its devices, and
// closes it.
func (t *Trained) Close() error {
	if !t.exec.HoldsParams() {
		return t.exec.Close()
	}
	back := t.fetchAll()
	t.lost = errClosed
	return errors.Join(back, t.exec.Close())
}

func (t *Trained) fetchAll() error {
	var errs []error
	for i, v := range t.values {
		if p := t.params[i]; v != nil && p.Value == v {
			errs = append(errs, v.Err())
		}
	}
	t.values = nil
	if t.lost != nil {
		return nil // reading a value later returns the error
	}
	return errors.Join(errs...)
}

// Failed returns the error of a failed step; if the step failed during its update, the state is lost.
func (t *Trained) Failed(step int, err error) error {
	if _, ok := errors.AsType[*PartialUpdateError](err); ok {
		t.lost = fmt.Errorf("trainer: step %d failed while it changed the parameters: they are lost: make another "+
			"trainer and Resume: %w", step, err)
	}
	return err
}
