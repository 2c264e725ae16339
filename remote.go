package galley

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/internal/xla"
)

// Backend is a chip that runs whole programs.
type Backend = backend.Backend

// XLAConfig says which PJRT plugin runs programs; the zero value is the first that is found.
type XLAConfig = xla.Config

// XLA is the devices of a PJRT plugin: GPUs, TPUs. A program takes the first, or with a strategy as many as that needs. Close gives
// them back.
func XLA(c XLAConfig) (Backend, error) { return xla.Open(c) }

// remote is a training run on a backend: the parameters, then the optimizer's slots, stay there.
type remote struct {
	b Backend
	// together is how tensors lie on several devices; nil is whole on one.
	together *together
	// micro is how many micro-batches a batch is cut into.
	micro int
	// c is the trainer's config, with tensors of the state in place of parameters where these are joined.
	c      TrainerConfig
	joined *joined
	laid   bool
	// halved is which of the state's weights lie as halves, as the first step chose them: the rounded ones behind the owned part of the state.
	halved []int
	chosen bool
	owned  int
	// state is by device.
	state [][]backend.Buffer
	exes  map[string]backend.Executable
	// losses is the loss as programs of micro-batches, by the types of batches.
	losses map[string]*cutLoss
	memory cpu.Memory
}

func newRemoteTrainer(c TrainerConfig) (t *Trainer, err error) {
	if c.Mode == Eager {
		return nil, fmt.Errorf("trainer: a backend runs compiled steps: mode is %v, want %v", c.Mode, Static)
	}
	r := &remote{b: c.Backend, exes: map[string]backend.Executable{}, losses: map[string]*cutLoss{}}
	if c, r.micro, err = c.onBackend(); err != nil {
		return nil, err
	}
	switch c.Recompute {
	case "", "none", "selective", "full":
	default:
		return nil, fmt.Errorf("trainer: recompute is %q: want none, selective or full", c.Recompute)
	}
	if c.Strategy != nil {
		if r.together, err = newTogether(c); err != nil {
			return nil, err
		}
	}
	r.c = c
	t = &Trainer{c: c, remote: r}
	if err := r.placeParams(c); err != nil {
		return nil, err
	}
	if err := r.makeSlots(c); err != nil {
		return nil, err
	}
	r.owned = len(r.state[0])
	return t, nil
}

// onBackend takes over what a strategy says of how to compute, what again, and how batches are cut. What is left is nil, or for
// several devices.
func (c TrainerConfig) onBackend() (TrainerConfig, int, error) {
	if c.Strategy == nil {
		return c, 1, nil
	}
	if c.Strategy.Recompute != "" {
		c.Recompute = c.Strategy.Recompute
	}
	s, err := c.Strategy.WithDefaults()
	if err != nil {
		return c, 1, err
	}
	switch s.AMP {
	case "bf16":
		c.Compute = array.BF16
	case "f16":
		return c, 1, fmt.Errorf("trainer: amp is f16: a backend computes in bf16, which needs no scale of the loss")
	}
	s.Recompute, s.AMP = "none", "off"
	if c.Strategy = &s; s.String() == (Strategy{Micro: s.Micro}).String() {
		c.Strategy = nil
	}
	return c, s.Micro, nil
}

// stepMetrics is how many of a step's results come before the state: the loss and the gradient's norm.
const stepMetrics = 2

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
	r, start := t.remote, t.startWhole
	if err := r.open(); err != nil {
		return nil, err
	}
	if r.micro > 1 {
		start = t.startParts
	}
	results, err := start([]array.Array{t.scalar(m.LR), t.scalar(float64(t.step + 1))}, batch)
	if err != nil {
		return nil, err
	}
	for i, list := range results {
		r.state[i] = list[stepMetrics:]
		if i > 0 { // the first device tells
			list[0].Free()
			list[1].Free()
		}
	}
	t.step++
	t.changed()
	p = &Pending{m: m, loss: results[0][0], norm: results[0][1]}
	if t.c.SkipNorm && t.c.ClipNorm == 0 {
		p.norm.Free()
		p.norm = nil
	}
	return p, nil
}

// startWhole starts the step as one program. Its results are by device.
func (t *Trainer) startWhole(numbers, batch []array.Array) ([][]backend.Buffer, error) {
	if err := t.lay(typesOf(batch)); err != nil {
		return nil, err
	}
	exe, err := t.remoteStep(typesOf(batch))
	if err == nil {
		err = t.remote.halve()
	}
	if err != nil {
		return nil, err
	}
	return t.remote.call(exe, t.remote.state, append(numbers, batch...), len(numbers))
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
func (t *Trainer) remoteStep(types []Type) (backend.Executable, error) {
	r := t.remote
	return r.compiled(fmt.Sprint(types), func() (backend.Executable, error) {
		p, at, err := t.remoteProgram(types)
		if err != nil {
			return nil, err
		}
		exe, err := r.compile(p, at, upTo(0, r.owned+len(r.halved)))
		if err == nil {
			r.memory = exe.Memory()
		}
		return exe, err
	})
}

// remoteProgram is the step's program, and how what goes in and out lies on several devices.
func (t *Trainer) remoteProgram(batch []Type) (*Program, lies, error) {
	if t.remote.together != nil {
		return t.remote.together.step(batch)
	}
	r := t.remote
	p, err := r.traced(batch)
	if err == nil && !r.chosen && r.c.Compute == array.BF16 {
		// The first step chooses the weights that lie as halves, for all. Their update waits for all gradients, so it is traced again.
		r.chosen, r.halved = true, roundedWeights(p, len(r.c.Params))
		if r.c.settle = len(r.halved) > 0; r.c.settle {
			p, err = r.traced(batch)
		}
	}
	if err == nil && len(r.halved) > 0 {
		p, err = onHalves(p, r.halved, r.owned, stepMetrics)
	}
	if err == nil {
		p, err = recomputed(p, len(r.c.Params), 1, r.c.recomputes(), nil)
	}
	return p, lies{}, err
}

func (r *remote) traced(batch []Type) (*Program, error) {
	p, err := TraceStep(r.c, batch...)
	if err != nil {
		return nil, err
	}
	return pass.Optimize(p)
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
	r, err := t.reader()
	if err != nil {
		return err
	}
	for i, p := range t.c.Params {
		a, err := r.read(i)
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		p.Value = s.Tensor(a).Track()
	}
	return nil
}

// open is an error where there is no state any more.
func (r *remote) open() error {
	if r.state == nil {
		return fmt.Errorf("trainer: it has no state on %s any more: it was closed, or lost it when a step failed: make another and Resume", r.b.Name())
	}
	return nil
}

// free gives buffers back, by device.
func free(lists [][]backend.Buffer) {
	for _, list := range lists {
		for _, b := range list {
			b.Free()
		}
	}
}

// Close gives back what the trainer holds on a backend, or ends the devices of a strategy. Params' values are brought back first.
func (t *Trainer) Close() error {
	switch {
	case t.many != nil:
		return t.closeMany()
	case t.remote == nil:
		return nil
	}
	back := t.bringBack()
	free(t.remote.state)
	t.remote.state = nil
	for _, exe := range t.remote.exes {
		if err := exe.Close(); err != nil {
			return err
		}
	}
	return back
}
