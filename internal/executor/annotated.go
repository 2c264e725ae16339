package executor

import (
	"context"
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
)

// Annotatable returns an executor that starts on one device. If a traced program requests other devices, it
// switches to an executor for those and moves the state there.
func (c Config) Annotatable(one Executor, many func() (Executor, error)) Executor {
	return &annotatable{Executor: one, c: c, many: many}
}

type annotatable struct {
	Executor
	c    Config
	many func() (Executor, error)
	// begun reports whether the state has changed since the start.
	begun bool
	// switches counts the switches of executors.
	switches int
}

// switchDevices handles the error of a program that requests other devices by switching to an executor for
// them.
func (e *annotatable) switchDevices(err *error) bool {
	if _, ok := errors.AsType[*layout.AnnotatedError](*err); !ok || e.switches > 0 || e.c.Mode == Eager {
		return false
	}
	next, failed := e.many()
	if failed == nil && e.begun {
		failed = e.move(next)
	}
	if failed != nil {
		*err = failed
		return false
	}
	e.Executor, e.switches = next, 1
	return true
}

// move copies the state to another executor.
func (e *annotatable) move(to Executor) error {
	read, err := e.Reader()
	if err != nil {
		return err
	}
	for _, t := range e.c.State() {
		a, err := read(t)
		if err == nil {
			err = to.Put(t, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *annotatable) Plan(batch ...ir.Type) (*Plan, error) {
	p, err := e.Executor.Plan(batch...)
	if err != nil && e.switchDevices(&err) {
		return e.Executor.Plan(batch...)
	}
	return p, err
}

func (e *annotatable) Start(batch ...ir.Type) error {
	err := e.Executor.Start(batch...)
	if err != nil && e.switchDevices(&err) {
		return e.Executor.Start(batch...)
	}
	return err
}

func (e *annotatable) Step(in Input) (Running, error) {
	r, err := e.Executor.Step(in)
	if err != nil && e.switchDevices(&err) {
		r, err = e.Executor.Step(in)
	}
	e.begun = e.begun || err == nil
	return r, err
}

func (e *annotatable) Load(r *checkpoint.Reader) error {
	e.begun = true
	return e.Executor.Load(r)
}

// Forward makes a forward pass that follows the current executor.
func (e *annotatable) Forward(f Func) Forward {
	return &annotatedForward{Forward: e.Executor.Forward(f), e: e, f: f, switches: e.switches}
}

type annotatedForward struct {
	Forward
	e        *annotatable
	f        Func
	switches int
}

// renew remakes the forward pass if the executor was switched.
func (f *annotatedForward) renew() {
	if f.switches != f.e.switches {
		f.Forward, f.switches = f.e.Executor.Forward(f.f), f.e.switches
	}
}

func (f *annotatedForward) Run(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	f.renew()
	parts, rows, err := f.Forward.Run(ctx, batch)
	if err != nil && f.e.switchDevices(&err) {
		f.renew()
		return f.Forward.Run(ctx, batch)
	}
	return parts, rows, err
}

func (f *annotatedForward) Plan(batch ...ir.Type) (*Plan, error) {
	f.renew()
	p, err := f.Forward.Plan(batch...)
	if err != nil && f.e.switchDevices(&err) {
		f.renew()
		return f.Forward.Plan(batch...)
	}
	return p, err
}
