package galley

import (
	"errors"
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
)

// trained is what a trainer tells of parameters that are on other devices: their values are those after its
// last step, which are brought here when somebody looks at them.
type trained struct {
	// version is how often the state has changed; a value of an earlier one cannot be had any more.
	version int
	// values are those that Params were given last.
	values []*Tensor
	// lost is why there is no state that could be read or saved.
	lost error
}

// changing makes the values of the state so far unreadable: it is about to change.
func (t *Trainer) changing() { t.trained.version++ }

// changed gives Params the values of the state as it now is, without moving any.
func (t *Trainer) changed() {
	t.changing()
	version, step := t.trained.version, t.step
	reader := sync.OnceValues(t.exec.Reader)
	var mu sync.Mutex
	t.trained.values = make([]*Tensor, len(t.c.Params))
	for i, p := range t.c.Params {
		if p.Value == nil {
			continue // a model that has only shapes on the host stays one
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
				a, err = read(executor.Tensor{Param: i, Slot: -1})
			}
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			return a, nil
		})
		p.Value = v.Track()
		t.trained.values[i] = p.Value
	}
}

// ReadParams calls f with the value of every parameter after the last step, one after the other, so that no
// more than one is brought here at a time. In a job all processes call it, and f is called in the first.
func (t *Trainer) ReadParams(f func(p *nn.Param, value array.Array) error) error {
	if t.trained.lost != nil {
		return t.trained.lost
	}
	if err := t.adopt(); err != nil {
		return err
	}
	if t.exec.Away() {
		return t.eachValue(func(i int, a array.Array) error { return f(t.c.Params[i], a) })
	}
	for _, p := range t.c.Params {
		a, err := executor.Value(p)
		if err == nil {
			err = f(p, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachValue is ReadParams for parameters on the executor's devices.
func (t *Trainer) eachValue(f func(i int, a array.Array) error) error {
	read, err := t.firstReader()
	if err != nil {
		return err
	}
	for i, p := range t.c.Params {
		a, err := read(executor.Tensor{Param: i, Slot: -1})
		if err == nil && t.c.Job.First() {
			err = f(i, a)
		}
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	return nil
}

// firstReader reads the state in the first process; in a job the others take part.
func (t *Trainer) firstReader() (executor.Reader, error) {
	if e, ok := t.exec.(interface {
		ReaderTo(process int) (executor.Reader, error)
	}); ok {
		return e.ReaderTo(0)
	}
	return t.exec.Reader()
}

// errElsewhere is why a process has no value of a parameter.
func errElsewhere(p *nn.Param) error {
	return fmt.Errorf("parameter %q: its value is in the first process of the job, to which Sync brought it", p.Name)
}

// adopt brings the devices what Params were given in place of trained values, by LoadState or by hand:
// training goes on from that.
func (t *Trainer) adopt() error {
	for i, v := range t.trained.values {
		p := t.c.Params[i]
		if p.Value == v || p.Value == nil {
			continue
		}
		a, err := executor.Value(p)
		if err == nil && !ir.TypeOf(a).Equal(p.Type) {
			err = fmt.Errorf("parameter %q: it was given %v: want %v", p.Name, ir.TypeOf(a), p.Type)
		}
		if err == nil {
			err = t.exec.Put(executor.Tensor{Param: i, Slot: -1}, a)
		}
		if err != nil {
			return err
		}
		t.trained.values[i] = p.Value
	}
	return nil
}

// readable is an error where the state of a version is no more.
func (t *Trainer) readable(version, step int) error {
	switch {
	case t.trained.lost != nil:
		return t.trained.lost
	case t.trained.version != version:
		return fmt.Errorf("its value after %d steps is gone: training has gone on: read it before the next step",
			step)
	}
	return nil
}

// errClosed is a trainer whose state was given up.
var errClosed = errors.New("trainer: it has no state any more: it was closed: make another and Resume")

// bringBack reads all values that Params still have from this trainer, so that they outlive its devices.
func (t *Trainer) bringBack() error {
	var errs []error
	for i, v := range t.trained.values {
		if p := t.c.Params[i]; v != nil && p.Value == v {
			errs = append(errs, v.Err())
		}
	}
	t.trained.values = nil
	if t.trained.lost != nil {
		return nil // whoever looks at a value is told
	}
	return errors.Join(errs...)
}

// tearing keeps why a step failed half-way.
func (t *Trainer) tearing(err error) error {
	if _, ok := errors.AsType[*executor.TornError](err); ok {
		t.trained.lost = fmt.Errorf("trainer: step %d failed while it changed the parameters: they are lost: make another "+
			"trainer and Resume: %w", t.step, err)
	}
	return err
}
