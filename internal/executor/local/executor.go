package local

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/op"
)

// Executor runs steps on one device.
type Executor struct {
	c       executor.Config
	session *cpu.Session
	slots   []array.Array
	// exes is the compiled steps by the types of their batches; last is the one that ran last.
	exes map[string]*cpu.Executable
	last *cpu.Executable
}

// New returns an executor with the optimizer's slots at zero.
func New(c executor.Config) (*Executor, error) {
	if c.DetectNaN {
		c.Device = c.Device.DetectNaN()
	}
	e := &Executor{c: c, session: c.Device.NewSession(), exes: map[string]*cpu.Executable{}}
	for i, p := range c.Params {
		if p.Value == nil {
			return nil, fmt.Errorf("trainer: parameter %q has no value: make the model with a scope", p.Name)
		}
		for _, t := range c.SlotTypes(i) {
			e.slots = append(e.slots, array.New(t.DType, t.Shape...))
		}
	}
	return e, nil
}

// Plan returns the plan of a step on batches of these types.
func (e *Executor) Plan(batch ...ir.Type) (*executor.Plan, error) { return Plan(e.c, batch...) }

// Plan returns the plan of an executor for this config, whose parameters need no values.
func Plan(c executor.Config, batch ...ir.Type) (*executor.Plan, error) {
	p, err := program(c, batch)
	if err != nil {
		return nil, err
	}
	return c.PlanStepOne(p)
}

// Start compiles the step; in eager mode there is nothing to do.
func (e *Executor) Start(batch ...ir.Type) error {
	if e.c.Mode == executor.Eager {
		return nil
	}
	_, err := e.compiled(batch)
	return err
}

// Step runs one step.
func (e *Executor) Step(in executor.Input) (executor.Running, error) {
	params, err := e.params()
	if err != nil {
		return nil, err
	}
	results, err := e.run(params, []array.Array{e.c.Scalar(in.LR), e.c.Scalar(in.Count)}, in.Batch)
	if err != nil {
		return nil, err
	}
	for i, p := range e.c.Params {
		p.Value = e.session.Tensor(results[executor.Metrics+i]).Track()
	}
	e.slots = results[executor.Metrics+len(params):]
	return executor.Result{Loss: results[0].At(0), Norm: results[1].At(0)}, nil
}

// run executes one step on arrays, in either mode.
func (e *Executor) run(params, scalars, batch []array.Array) ([]array.Array, error) {
	args := slices.Concat(params, e.slots, scalars, batch)
	if e.c.Mode == executor.Eager {
		return e.runEager(args)
	}
	exe, err := e.compiled(executor.TypesOf(batch))
	if err != nil {
		return nil, err
	}
	e.last = exe
	return exe.Run(args)
}

// compiled returns the compiled step for batches of these types; each set of types is compiled once.
func (e *Executor) compiled(batch []ir.Type) (*cpu.Executable, error) {
	key := fmt.Sprint(batch)
	if exe, ok := e.exes[key]; ok {
		return exe, nil
	}
	p, err := program(e.c, batch)
	if err != nil {
		return nil, err
	}
	exe, err := executor.Compile(e.c.Device, p, e.options())
	if err == nil {
		e.exes[key] = exe
	}
	return exe, err
}

// program returns the step for batches of these types, traced and checked.
func program(c executor.Config, batch []ir.Type) (*ir.Func, error) {
	p, err := c.TraceStep(batch)
	if err == nil {
		err = layout.CheckConstraints(p)
	}
	return p, err
}

// options returns the compiler options of the step: parameters and slots are updated in place.
func (e *Executor) options() cpu.Options {
	return cpu.Options{Donate: executor.UpTo(0, len(e.c.Params)+len(e.slots)), Observe: e.c.Observe}
}

func (e *Executor) runEager(args []array.Array) ([]array.Array, error) {
	in := make([]*op.Tensor, len(args))
	for i, a := range args {
		in[i] = e.session.Tensor(a)
		if i < len(e.c.Params) {
			in[i] = in[i].Track()
		}
	}
	return readAll(e.c.Step(in))
}

func readAll(list []*op.Tensor) ([]array.Array, error) {
	out := make([]array.Array, len(list))
	for i, x := range list {
		a, err := cpu.Read(x)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

func (e *Executor) params() ([]array.Array, error) {
	out := make([]array.Array, len(e.c.Params))
	for i, p := range e.c.Params {
		a, err := executor.Value(p)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

// Reader reads the state.
func (e *Executor) Reader() (executor.Reader, error) { return e.read, nil }

func (e *Executor) read(t executor.Tensor) (array.Array, error) {
	if t.Slot < 0 {
		return executor.Value(e.c.Params[t.Param])
	}
	return e.slots[t.Param*e.c.Optimizer.Slots()+t.Slot], nil
}

// Load reads a checkpoint.
func (e *Executor) Load(r *checkpoint.Reader) error { return e.c.LoadWhole(r, e.Put) }

// Put replaces a tensor of the state.
func (e *Executor) Put(t executor.Tensor, a array.Array) error {
	if t.Slot < 0 {
		e.c.Params[t.Param].Value = e.session.Tensor(a).Track()
	} else {
		e.slots[t.Param*e.c.Optimizer.Slots()+t.Slot] = a
	}
	return nil
}

// Save returns the state, gathered.
func (e *Executor) Save() (checkpoint.State, error) { return e.c.SaveWhole(e) }

// HoldsParams returns false: the model holds its values.
func (e *Executor) HoldsParams() bool { return false }

// Memory returns the memory of the step that ran last.
func (e *Executor) Memory() (compiled cpu.Memory, taken []int) {
	if e.last != nil {
		compiled = e.last.Memory()
	}
	return compiled, nil
}

// RunningOps returns the op that the device is running.
func (e *Executor) RunningOps() []step.RunningOp {
	if n := e.c.Device.RunningOp(); n != nil {
		return []step.RunningOp{{Node: n}}
	}
	return nil
}

// Close does nothing: there is nothing to release.
func (e *Executor) Close() error { return nil }
