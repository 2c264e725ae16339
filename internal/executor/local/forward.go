package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// forward is a forward pass, compiled when the first batch of each size is run.
type forward struct {
	e    *Executor
	f    executor.Func
	exes map[string]*cpu.Executable
}

// Forward makes a forward pass of f.
func (e *Executor) Forward(f executor.Func) executor.Forward {
	return &forward{e: e, f: f, exes: map[string]*cpu.Executable{}}
}

// Run returns f of a batch, in one part.
func (f *forward) Run(_ context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	run := f.runStatic
	if f.e.c.Mode == executor.Eager {
		run = f.runEager
	}
	out, err := run(batch)
	return [][]array.Array{out}, nil, err
}

func (f *forward) compiled(types []ir.Type) (*cpu.Executable, error) {
	key := fmt.Sprint(types)
	if e := f.exes[key]; e != nil {
		return e, nil
	}
	p, err := f.program(types)
	if err != nil {
		return nil, err
	}
	e, err := executor.Compile(f.e.c.Device, p, cpu.Options{})
	if err == nil {
		f.exes[key] = e
	}
	return e, err
}

func (f *forward) runStatic(batch []array.Array) ([]array.Array, error) {
	exe, err := f.compiled(executor.TypesOf(batch))
	if err != nil {
		return nil, err
	}
	params, err := f.e.params()
	if err != nil {
		return nil, err
	}
	return exe.Run(slices.Concat(params, batch))
}

func (f *forward) runEager(batch []array.Array) ([]array.Array, error) {
	var in, values []*op.Tensor
	for _, a := range batch {
		in = append(in, f.e.session.Tensor(a))
	}
	for _, p := range f.e.c.Params {
		values = append(values, p.Value.Detach()) // without the history of how it was computed
	}
	defer nn.Bind(f.e.c.Params, values)()
	return readAll(f.f(in))
}

// Plan returns the plan of the pass on batches of these types.
func (f *forward) Plan(batch ...ir.Type) (*executor.Plan, error) {
	p, err := f.program(batch)
	if err != nil {
		return nil, err
	}
	return f.e.c.PlanForwardOne(p)
}

// program returns the pass for batches of these types, traced and checked.
func (f *forward) program(types []ir.Type) (*ir.Func, error) {
	p, err := f.e.c.TraceForward("forward", types, f.f)
	if err == nil {
		err = layout.CheckConstraints(p)
	}
	return p, err
}

// Close does nothing: there is nothing to release.
func (f *forward) Close() error { return nil }
