package branches

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Executor runs steps on two devices.
type Executor struct {
	c        executor.Config
	strategy strategy.Strategy
	forwards executor.Executor
	session  *runtime.Session
	// state is the parameters, then their slots: on the devices that own them once a step has started.
	state   []*op.Tensor
	started bool
	// exes is the compiled steps by the types of their batches; last is the one that ran last.
	exes map[string]*runtime.Executable
	last *runtime.Executable
}

// New returns an executor with the parameters' current values and zero slots. one makes an executor of one
// device for the same config, which runs forward passes.
func New(c executor.Config, one func(executor.Config) (executor.Executor, error)) (*Executor, error) {
	s, err := check(c)
	if err != nil {
		return nil, err
	}
	if err := draw(c); err != nil {
		return nil, err
	}
	if c.DetectNaN {
		c.Device = c.Device.DetectNaN()
	}
	e := &Executor{c: c, strategy: s, exes: map[string]*runtime.Executable{}}
	if e.forwards, err = one(c); err != nil {
		return nil, err
	}
	w, err := c.World(2)
	if err != nil {
		return nil, err
	}
	if n := len(comm.Local(w)); n != 2 {
		w.Close()
		return nil, fmt.Errorf("strategy: branches=%d in a job of several processes: want one process, or dp=%[1]d",
			s.Branches)
	}
	e.session = runtime.NewSession(c.Device, w)
	for _, p := range c.Params {
		a, err := executor.Value(p)
		if err != nil {
			return nil, err
		}
		e.state = append(e.state, e.session.Tensor(a))
	}
	for i := range c.Params {
		for _, t := range c.SlotTypes(i) {
			e.state = append(e.state, e.session.Tensor(array.New(t.DType, t.Shape...)))
		}
	}
	return e, nil
}

// draw initializes parameters that have no value.
func draw(c executor.Config) error {
	s := c.Device.NewSession()
	for _, p := range c.Params {
		if p.Value != nil || !p.Drawn() {
			continue
		}
		a := array.New(p.Type.DType, p.Type.Shape...)
		box := mesh.Box{Start: make([]int, len(p.Type.Shape)), Size: p.Type.Shape}
		if err := p.Draw(c.Device, box, a); err != nil {
			return err
		}
		p.Value = s.Tensor(a).Track()
	}
	return nil
}

// Start compiles the step.
func (e *Executor) Start(batch ...ir.Type) error {
	_, err := e.compiled(batch)
	return err
}

// compiled returns the step for batches of these types.
func (e *Executor) compiled(batch []ir.Type) (*runtime.Executable, error) {
	key := fmt.Sprint(batch)
	if exe, ok := e.exes[key]; ok {
		return exe, nil
	}
	p, err := newProgram(e.c, batch)
	if err != nil {
		return nil, err
	}
	exe, err := e.session.Compile(p.Program, runtime.CompileConfig{Donate: executor.UpTo(0, len(e.state)),
		Local: fused(e.c)})
	if err == nil {
		e.exes[key] = exe
	}
	return exe, err
}

// Step runs one step.
func (e *Executor) Step(in executor.Input) (executor.Running, error) {
	exe, err := e.compiled(executor.TypesOf(in.Batch))
	if err != nil {
		return nil, err
	}
	args := slices.Clone(e.state)
	for _, a := range append([]array.Array{e.c.Scalar(in.LR), e.c.Scalar(in.Count)}, in.Batch...) {
		args = append(args, e.session.Tensor(a))
	}
	out, err := exe.RunSharded(args)
	if err != nil {
		if e.started { // its parts may be overwritten already
			err = &executor.PartialUpdateError{Err: err}
		}
		return nil, err
	}
	var metrics [executor.Metrics]float64
	for i := range metrics {
		a, err := runtime.Read(out[i])
		if err != nil {
			return nil, &executor.PartialUpdateError{Err: err}
		}
		metrics[i] = a.At(0)
	}
	e.state, e.last, e.started = out[executor.Metrics:], exe, true
	return executor.Result{Loss: metrics[0], Norm: metrics[1]}, nil
}

// index returns the index of a tensor in the state.
func (e *Executor) index(t executor.Tensor) int {
	if t.Slot < 0 {
		return t.Param
	}
	return len(e.c.Params) + t.Param*e.c.Optimizer.Slots() + t.Slot
}

// Reader reads the state.
func (e *Executor) Reader() (executor.Reader, error) {
	return func(t executor.Tensor) (array.Array, error) {
		a, err := runtime.Read(e.state[e.index(t)])
		if err != nil || !e.started {
			return a, err
		}
		return a.Clone(), nil // the next step overwrites it
	}, nil
}

// Put replaces a tensor of the state.
func (e *Executor) Put(t executor.Tensor, a array.Array) error {
	e.state[e.index(t)], e.started = e.session.Tensor(a), true
	return nil
}

// Load reads a checkpoint.
func (e *Executor) Load(r *checkpoint.Reader) error { return e.c.LoadWhole(r, e.Put) }

// Save returns the state, gathered.
func (e *Executor) Save() (checkpoint.State, error) { return e.c.SaveWhole(e) }

// HoldsParams reports whether the state has changed from the parameters' values.
func (e *Executor) HoldsParams() bool { return e.started }

// Memory returns the memory of the device that needs more in the step that ran last.
func (e *Executor) Memory() (compiled cpu.Memory, taken []int) {
	if e.last == nil {
		return compiled, nil
	}
	for d := range 2 {
		if m := e.last.Memory(d); m.Peak() > compiled.Peak() {
			compiled = m
		}
	}
	return compiled, nil
}

// RunningOps returns the op that the host device is running.
func (e *Executor) RunningOps() []step.RunningOp {
	if n := e.c.Device.RunningOp(); n != nil {
		return []step.RunningOp{{Node: n}}
	}
	return nil
}

// Forward makes a forward pass of f on one device, to which parameters are copied.
func (e *Executor) Forward(f executor.Func) executor.Forward { return e.forwards.Forward(f) }

// Close shuts the devices down.
func (e *Executor) Close() error {
	e.session.Close()
	return e.forwards.Close()
}
