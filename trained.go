package galley

import (
	"errors"
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// trained is what a trainer tells of parameters that lie on other devices: their values are those after its last step, which
// are brought here when somebody looks at them.
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
	read := t.paramReader()
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
			a, err := read(i)
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			return a, nil
		})
		p.Value = v.Track()
		t.trained.values[i] = p.Value
	}
}

// readable is an error where the state of a version is no more.
func (t *Trainer) readable(version, step int) error {
	switch {
	case t.trained.lost != nil:
		return t.trained.lost
	case t.trained.version != version:
		return fmt.Errorf("its value after %d steps is gone: training has gone on: read it before the next step", step)
	}
	return nil
}

// paramReader reads parameters of the state, wherever they lie when it is called.
func (t *Trainer) paramReader() func(i int) (array.Array, error) {
	if t.many != nil {
		return t.readMany
	}
	shared := sync.OnceValues(t.reader)
	return func(i int) (array.Array, error) {
		r, err := shared()
		if err != nil {
			return array.Array{}, err
		}
		return r.read(i)
	}
}

// readMany reads a parameter from the devices of a strategy or, before their first step, from the checkpoint that they go on from.
func (t *Trainer) readMany(i int) (array.Array, error) {
	switch {
	case t.many.runner != nil:
		return t.many.runner.Read(t.many.h.precise(i))
	case t.many.saved != nil:
		return t.many.saved.ReadWhole(t.c.Params[i].Name)
	}
	return array.Array{}, errClosed
}

// errClosed is a trainer whose state was given up.
var errClosed = errors.New("trainer: it is closed: make another and Resume")

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

// tearing keeps why a step on many devices failed half-way.
func (t *Trainer) tearing(err error) error {
	if t.many.runner.Torn() {
		t.trained.lost = fmt.Errorf("trainer: step %d failed while it changed the parameters: they are lost: make another "+
			"trainer and Resume: %w", t.step, err)
	}
	return err
}
