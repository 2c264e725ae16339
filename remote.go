package galley

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/internal/xla"
	"github.com/galley-ml/galley/op"
)

// Backend is a chip that runs whole programs.
type Backend = backend.Backend

// XLAConfig says which PJRT plugin runs programs; the zero value is the first that is found.
type XLAConfig = xla.Config

// XLA is the first device of a PJRT plugin: a GPU, a TPU. Close gives it back.
func XLA(c XLAConfig) (Backend, error) { return xla.Open(c) }

// remote is a training run on a backend: the parameters, then the optimizer's slots, stay there.
type remote struct {
	b      Backend
	state  []backend.Buffer
	exes   map[string]backend.Executable
	memory cpu.Memory
}

func newRemoteTrainer(c TrainerConfig) (t *Trainer, err error) {
	if c.Mode == Eager {
		return nil, fmt.Errorf("trainer: a backend runs compiled steps: mode is %v, want %v", c.Mode, Static)
	}
	if c, err = c.onOneDevice(); err != nil {
		return nil, err
	}
	switch c.Recompute {
	case "", "none", "selective", "full":
	default:
		return nil, fmt.Errorf("trainer: recompute is %q: want none, selective or full", c.Recompute)
	}
	r := &remote{b: c.Backend, exes: map[string]backend.Executable{}}
	if err := r.placeParams(c); err != nil {
		return nil, err
	}
	slots, err := r.run("slots", func(s op.Scope) []*Tensor {
		var zeros []*Tensor
		for _, p := range c.Params {
			for range c.Optimizer.Slots() {
				zeros = append(zeros, op.Full(s, p.Type.DType, p.Type.Shape, 0))
			}
		}
		return zeros
	})
	if err != nil {
		return nil, err
	}
	r.state = append(r.state, slots...)
	return &Trainer{c: c, remote: r}, nil
}

// onOneDevice takes over what a strategy says that a backend can do: how to compute, and what again. Anything else of a
// strategy is a mistake.
func (c TrainerConfig) onOneDevice() (TrainerConfig, error) {
	s := c.Strategy
	if s == nil {
		return c, nil
	}
	rest := *s
	rest.Recompute, rest.AMP, rest.Offload = "none", "off", cmp.Or(s.Offload, "none")
	plain := Strategy{Schedule: s.Schedule, Context: s.Context, Recompute: "none", AMP: "off", Offload: "none"}
	if rest.String() != plain.String() {
		return c, fmt.Errorf("trainer: strategy %q: a backend trains on one device: leave out all but recompute and amp", rest.String())
	}
	if s.Recompute != "" {
		c.Recompute = s.Recompute
	}
	switch s.AMP {
	case "bf16":
		c.Compute = array.BF16
	case "f16":
		return c, fmt.Errorf("trainer: amp is f16: a backend computes in bf16, which needs no scale of the loss")
	}
	c.Strategy = nil
	return c, nil
}

// placeParams brings the parameters to the backend, or makes them there.
func (r *remote) placeParams(c TrainerConfig) (err error) {
	if c.Init != nil {
		return r.makeParams(c)
	}
	for _, p := range c.Params {
		if p.Value == nil {
			return fmt.Errorf("trainer: parameter %q has no value: make the model with a scope", p.Name)
		}
		a, err := cpu.Read(p.Value)
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		b, err := r.b.Put(a)
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		r.state = append(r.state, b)
	}
	return nil
}

// makeParams runs the program of first values, a part for each parameter, compiled side by side: a whole model's would keep
// one compiler busy for longer than the training step.
func (r *remote) makeParams(c TrainerConfig) error {
	n := len(c.Init.Results())
	if n != len(c.Params) {
		return fmt.Errorf("trainer: the program of first values has %d results: want %d, one for each parameter", n, len(c.Params))
	}
	r.state = make([]backend.Buffer, n)
	errs := make([]error, n)
	slots := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			r.state[i], errs[i] = r.makeParam(c.Init, i)
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// makeParam is one result of a program without parameters.
func (r *remote) makeParam(p *Program, i int) (backend.Buffer, error) {
	b := ir.NewBuilder(p.Name())
	one, err := b.Build(p.Replay(b, b.ParamsOf(p), nil)[i])
	if err == nil {
		one, err = pass.Prune(one)
	}
	if err != nil {
		return nil, err
	}
	out, err := r.compileAndRun(one)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// run makes tensors on the backend by a program without parameters.
func (r *remote) run(name string, f func(op.Scope) []*Tensor) ([]backend.Buffer, error) {
	b := ir.NewBuilder(name)
	p, err := b.Build(f(b)...)
	if err != nil || len(p.Results()) == 0 {
		return nil, err
	}
	return r.compileAndRun(p)
}

func (r *remote) compileAndRun(p *Program) ([]backend.Buffer, error) {
	exe, err := r.b.Compile(p, Options{})
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	return exe.Run(nil)
}

// Pending is a step that was started.
type Pending struct {
	m          Metrics
	loss, norm backend.Buffer
}

// Start begins a step on a backend and returns before it is done, so that the next one can be prepared, or started,
// meanwhile. Without a backend the step is done when Start returns.
func (t *Trainer) Start(batch ...array.Array) (p *Pending, err error) {
	defer recoverBug(fmt.Sprintf("training step %d", t.step), &err)
	if t.remote == nil {
		m, err := t.Step(batch...)
		return &Pending{m: m}, err
	}
	m := Metrics{Step: t.step, LR: t.c.Schedule.At(t.step)}
	args := append([]backend.Buffer{}, t.remote.state...)
	for _, a := range append([]array.Array{t.scalar(m.LR), t.scalar(float64(t.step + 1))}, batch...) {
		b, err := t.remote.b.Put(a)
		if err != nil {
			return nil, err
		}
		defer b.Free() // after the run, which goes first
		args = append(args, b)
	}
	exe, err := t.remoteStep(batch)
	if err != nil {
		return nil, err
	}
	results, err := exe.Run(args)
	if err != nil {
		return nil, err
	}
	t.remote.state = results[2:]
	t.step++
	p = &Pending{m: m, loss: results[0], norm: results[1]}
	if t.c.SkipNorm && t.c.ClipNorm == 0 {
		p.norm.Free()
		p.norm = nil
	}
	return p, nil
}

// Wait is the step's metrics, when it is done.
func (p *Pending) Wait() (Metrics, error) {
	if p.loss == nil {
		return p.m, nil
	}
	for _, of := range []struct {
		b  backend.Buffer
		to *float64
	}{{p.loss, &p.m.Loss}, {p.norm, &p.m.GradNorm}} {
		if of.b == nil {
			continue
		}
		a, err := of.b.Read()
		if err != nil {
			return p.m, err
		}
		*of.to = a.At(0)
		of.b.Free()
	}
	p.loss = nil
	if bad(p.m.Loss) || bad(p.m.GradNorm) {
		return p.m, &DivergedError{p.m}
	}
	return p.m, nil
}

func (t *Trainer) stepRemote(batch []array.Array) (Metrics, error) {
	p, err := t.Start(batch...)
	if err != nil {
		return Metrics{Step: t.step}, err
	}
	return p.Wait()
}

// recomputes is the policy of a step on a backend.
func (c TrainerConfig) recomputes() stage.Recompute {
	return map[string]stage.Recompute{"selective": stage.RecomputeSelective, "full": stage.RecomputeFull}[c.Recompute]
}

// remoteStep is the compiled step for batches of these types.
func (t *Trainer) remoteStep(batch []array.Array) (backend.Executable, error) {
	var types []Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	key := fmt.Sprint(types)
	if exe, ok := t.remote.exes[key]; ok {
		return exe, nil
	}
	p, err := TraceStep(t.c, types...)
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err == nil {
		p, err = recomputed(p, len(t.c.Params), t.c.recomputes())
	}
	if err != nil {
		return nil, err
	}
	donate := make([]int, len(t.remote.state))
	for i := range donate {
		donate[i] = i
	}
	exe, err := t.remote.b.Compile(p, Options{Donate: donate})
	if err != nil {
		return nil, err
	}
	t.remote.exes[key], t.remote.memory = exe, exe.Memory()
	return exe, nil
}

// Sync brings the parameters that a backend or the devices of a strategy have trained back to where Params' values are:
// tensors of s, or of the trainer's own session where s is nil. Otherwise they are there.
func (t *Trainer) Sync(s *Session) error {
	if s == nil {
		s = t.session
	}
	if s == nil {
		return fmt.Errorf("trainer: parameters are on %s: want a session to bring them back to", t.remote.b.Name())
	}
	switch {
	case t.many != nil:
		return t.syncMany(s)
	case t.remote == nil:
		return nil
	}
	for i, p := range t.c.Params {
		a, err := t.remote.state[i].Read()
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		p.Value = s.Tensor(a).Track()
	}
	return nil
}

// Close gives back what the trainer holds on a backend, or ends the devices of a strategy.
func (t *Trainer) Close() error {
	switch {
	case t.many != nil:
		return t.closeMany()
	case t.remote == nil:
		return nil
	}
	for _, b := range t.remote.state {
		b.Free()
	}
	t.remote.state = nil
	for _, exe := range t.remote.exes {
		if err := exe.Close(); err != nil {
			return err
		}
	}
	return nil
}
