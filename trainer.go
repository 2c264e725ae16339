package galley

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/runfacts"
	"github.com/galley-ml/galley/internal/xla"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// Mode is how a training step runs on one device.
type Mode = executor.Mode

// A step is traced and compiled once, or runs op by op. The numbers are the same.
const (
	Static = executor.Static
	Eager  = executor.Eager
)

// Backend is a chip that runs whole programs, told by Name: Compile makes one ready to run, Put copies an
// array there, Close gives everything back.
type Backend = backend.Backend

// Share is a Backend's part of a batch, in proportion to its Weight.
type Share = executor.Share

// XLAConfig says which PJRT plugin runs programs; the zero value is the first that is found. Plugin is its
// path, Flags are XLA's own, Options the plugin's; Cache is a directory of compiled programs, Dump is told
// the StableHLO of each, Mock is how many devices CUDA's plugin pretends to have, and Values how plugins of
// several processes tell each other values.
type XLAConfig = xla.Config

// XLA is the devices of a PJRT plugin: GPUs, TPUs. A program takes the first, or with a strategy as many as
// that needs. Close gives them back.
func XLA(c XLAConfig) (Backend, error) { return xla.Open(c) }

// TrainerConfig says what is trained and how.
type TrainerConfig struct {
	Device *Device
	// Params are changed by training, but for those that nn.Freeze has marked; the trainer owns their memory
	// while it is used.
	Params []*nn.Param
	// Loss is the number to make small, a scalar, computed from one batch.
	Loss func(batch []*Tensor) *Tensor
	// Optimizer's zero value is AdamW with its defaults.
	Optimizer optim.Optimizer
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm limits the norm of all gradients together; 0 does not.
	ClipNorm float64
	Mode     Mode
	// Compute, where it is a 16-bit dtype, is what products compute in; parameters and the optimizer stay as
	// they are, and norms, sums and the loss compute in f32. The zero value computes in the parameters' own
	// dtype.
	Compute array.DType
	// Backend, where set, runs compiled steps in place of Device. Parameters and optimizer state stay on it;
	// Params' values are brought back when somebody reads them.
	Backend Backend
	// RankBackends, where set, compute in place of the devices of the Strategy's pipeline, one a rank; nil is
	// the host. Shares, without a Strategy, split a batch over backends in parts of unequal size, by their
	// speed.
	RankBackends []Backend
	Shares       []Share
	// Init is a program that makes the first values of all Params on the Backend, for a model without values.
	Init *Program
	// Load, where set, reads boxes of Params that have no value, such as models.Weights.ReadBox: the devices of
	// a strategy then read only what they hold. On one device, or with a Backend, it reads them whole.
	Load func(p *nn.Param, box mesh.Box, dst array.Array) error
	// Recompute is what the backward pass on a Backend computes again in place of keeping it: none, which empty
	// means too, selective for all but products and attention, or full for all within a layer.
	Recompute strategy.Recompute
	// SkipNorm leaves the gradients' norm out of the metrics where nothing clips: a pass over all gradients
	// less.
	SkipNorm bool
	// DetectNaN ends a step at the first op that makes a NaN, with its name and line. It reads every result
	// once more.
	DetectNaN bool
	// Observe, where set, is told how long each node of a compiled step took; with a strategy from many
	// goroutines.
	Observe func(n *Node, took time.Duration)
	// Strategy, where set, spreads the step over in-process devices, or over those of the Backend as one
	// program; Params' values are then brought back when somebody reads them. Annotations say how parameters
	// lie that the built-in plan does not know.
	Strategy    *Strategy
	Annotations []Annotation
	// Parallel, where set, is a plan of layers; its strategy counts where none is given.
	Parallel *Parallel
	// Facts and Seed are what makes this run what it is, besides optimizer, schedule and clipping:
	// checkpoints keep them, and Resume refuses one of another run.
	Facts []Fact
	Seed  uint64
	// Watch, where set, is told what the devices of a strategy do, from many goroutines.
	Watch func(Span)
	// Job, where set, is the processes to which the strategy's devices are dealt. All of them make the same
	// trainer and take the same steps; each is told the same losses.
	Job *job.Job

	// loaded is where a loader lays the tensors of a batch, zeroAxis the axis that the optimizer is sharded
	// over, where the line that asks for the strategy.
	loaded   []op.Layout
	zeroAxis string
	where    ir.Pos
}

// withDefaults fills in what may be left out of a config and checks the rest.
func (c TrainerConfig) withDefaults() (TrainerConfig, error) {
	if c.Loss == nil || len(c.Params) == 0 {
		return c, fmt.Errorf("trainer: want parameters and a loss")
	}
	if c.Optimizer == nil {
		c.Optimizer = optim.AdamW{}
	}
	if c.Schedule == nil {
		c.Schedule = optim.Constant{LR: 1e-3}
	}
	if c.Parallel != nil {
		c.Annotations = slices.Concat(c.Annotations, c.Parallel.Annotations)
		if c.Strategy == nil {
			c.Strategy = c.Parallel.Strategy
		}
	}
	if err := layout.CheckAnnotations(c.Annotations, c.Params); err != nil {
		return c, fmt.Errorf("trainer: %w", err)
	}
	if err := optim.Check(c.Optimizer, nn.Names(c.Params)); err != nil {
		return c, fmt.Errorf("trainer: %w", err)
	}
	return c, nil
}

// executor is the part of a config that executors know.
func (c TrainerConfig) executor() executor.Config {
	return executor.Config{
		Device: c.Device, Params: c.Params, Loss: c.Loss, Optimizer: c.Optimizer, ClipNorm: c.ClipNorm, Mode: c.Mode,
		Compute: c.Compute, Backend: c.Backend, Init: c.Init, Load: c.Load, Recompute: c.Recompute, SkipNorm: c.SkipNorm,
		DetectNaN: c.DetectNaN, Observe: c.Observe, Watch: c.Watch, World: c.Job.Devices, Strategy: c.Strategy,
		Annotations: c.Annotations, Loaded: c.loaded, ZeroAxis: c.zeroAxis, Where: c.where,
		Layers: c.Parallel.Layers(), RankBackends: c.RankBackends, Shares: c.Shares,
	}
}

// Trainer trains parameters step by step.
type Trainer struct {
	c TrainerConfig
	// exec takes the steps and keeps the state.
	exec executor.Executor
	// step is how many steps were taken, skipped how many of them changed nothing, since their gradients
	// overflowed.
	step, skipped int
	// sample is how many samples were trained on, over all runs.
	sample int64
	// described is what the loader of a fit says of itself.
	described []Fact
	// trained is the parameters' values where they are on devices of the executor.
	trained *executor.Trained
}

// NewTrainer starts at step 0 with the optimizer's memory at zero.
func NewTrainer(c TrainerConfig) (*Trainer, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.where == "" {
		c.where = ir.Caller()
	}
	if c.Strategy != nil && c.Mode == Eager {
		return nil, fmt.Errorf(
			"trainer: mode is %v: strategy %q runs compiled steps: want %v, or no strategy and tensors on meshes",
			c.Mode,
			c.Strategy,
			Static,
		)
	}
	if c.Backend == nil && c.Recompute.Mode() != strategy.None {
		return nil, fmt.Errorf("trainer: recompute is %s: without a Backend a strategy says it: "+
			"want Strategy{Recompute: %[1]q}", c.Recompute)
	}
	if n := c.Job.Size(); n > 1 && c.Backend != nil {
		return nil, fmt.Errorf(
			"trainer: a job of %d processes: a backend's devices are of one process: want one",
			n,
		)
	}
	if err := c.Job.Fits(c.Strategy); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	config := c.executor()
	exec, err := choose.New(config)
	if err != nil {
		return nil, err
	}
	t := &Trainer{c: c, exec: exec, trained: executor.NewTrained(exec, c.Params)}
	if err := c.Job.Same(append(runfacts.Program(config), t.facts()...)); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return t, nil
}

// TraceStep is the program of a whole training step on batches of these types. Its parameters are the
// model's, the optimizer's slots, the learning rate, the step's number and the batch; its results the loss,
// the gradients' norm, the next parameters and slots. The model needs no values: shapes are enough.
func TraceStep(c TrainerConfig, batch ...Type) (p *Program, err error) {
	defer fault.Recover("trace of the training step", &err)
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	return c.executor().TraceStep(batch)
}

// Metrics is what one step tells: its number, loss, gradients' norm and learning rate.
type Metrics = fit.Metrics

// DivergedError is a step whose loss or gradients are not finite numbers.
type DivergedError = fit.DivergedError

// Step trains on one batch.
func (t *Trainer) Step(batch ...array.Array) (Metrics, error) {
	p, err := t.Start(batch...)
	if err != nil {
		return Metrics{Step: t.step, LR: t.c.Schedule.At(t.step)}, err
	}
	return p.Wait()
}

// Pending is a step that was started.
type Pending struct {
	m       Metrics
	running executor.Running // nil once it is done
	err     error
}

// Start begins a step on a backend and returns before it is done, so that the next one can be prepared, or
// started, meanwhile. Without a backend the step is done when Start returns.
func (t *Trainer) Start(batch ...array.Array) (p *Pending, err error) {
	defer fault.Recover(fmt.Sprintf("training step %d", t.step), &err)
	if err := t.trained.Ready(); err != nil {
		return nil, err
	}
	p = &Pending{m: Metrics{Step: t.step, LR: t.c.Schedule.At(t.step)}}
	p.running, err = t.exec.Step(executor.Input{LR: p.m.LR, Count: float64(t.step + 1 - t.skipped),
		Batch: batch})
	if err != nil {
		return nil, t.trained.Failed(t.step, err)
	}
	t.step++
	if len(batch) > 0 && len(batch[0].Shape()) > 0 {
		t.sample += int64(batch[0].Shape()[0])
	}
	t.trained.Changed(t.step)
	if r, done := p.running.(executor.Result); done && r.Skipped {
		t.skipped++
	}
	return p, nil
}

// Wait is the step's metrics, when it is done.
func (p *Pending) Wait() (Metrics, error) {
	if p.running == nil {
		return p.m, p.err
	}
	r, err := p.running.Wait()
	p.running, p.err = nil, err
	p.m.Loss, p.m.GradNorm, p.m.Skipped = r.Loss, r.Norm, r.Skipped
	if err == nil && !r.Skipped && (!executor.Finite(r.Loss) || !executor.Finite(r.Norm)) {
		p.err = &DivergedError{Metrics: p.m}
	}
	return p.m, p.err
}

// Steps is how many steps have been taken.
func (t *Trainer) Steps() int { return t.step }

// Memory is what the last compiled step needs on one device or on a backend; zero before the first step and
// in eager mode.
func (t *Trainer) Memory() Memory {
	m, _ := t.exec.Memory()
	return m
}

// Taken is the bytes that each device of a strategy has taken, which is what Plan said; nil before the first
// step.
func (t *Trainer) Taken() []int {
	_, taken := t.exec.Memory()
	return taken
}

// Doing is what each device is at in the step that runs, a line a device: the stage and micro-batch, and the
// op or collective with its line, or the program that a backend has not ended. Between steps there is none.
// It may be called while a step runs, to see where one hangs.
func (t *Trainer) Doing() []string {
	var list []string
	for _, d := range t.exec.Doing() {
		list = append(list, d.String())
	}
	return list
}

// Averaged is the moving averages of the parameters, in the order of Params, that an optim.Averaged optimizer
// keeps. A parameter that training leaves alone, or a buffer, is its own average.
func (t *Trainer) Averaged() ([]array.Array, error) {
	return t.c.executor().Averages(t.exec, t.step-t.skipped)
}

// Sync brings the parameters that a backend or the devices of a strategy have trained back to where Params'
// values are: tensors of s, or where s is nil of a new session of the trainer's device. Otherwise they are
// there. In a job all processes call it, and the first has the values then.
func (t *Trainer) Sync(s *Session) error {
	if s == nil && t.c.Device != nil {
		s = t.c.Device.NewSession()
	}
	if s == nil {
		return fmt.Errorf("trainer: parameters are on %s: want a session to bring them back to", t.c.Backend.Name())
	}
	return t.trained.Sync(s, t.c.Job.First())
}

// ReadParams calls f with the value of every parameter after the last step, one after the other, so that no
// more than one is brought here at a time. In a job all processes call it, and f is called in the first.
func (t *Trainer) ReadParams(f func(p *nn.Param, value array.Array) error) error {
	if !t.c.Job.First() {
		f = func(*nn.Param, array.Array) error { return nil }
	}
	return t.trained.Each(f)
}

// Close gives back what the trainer holds on devices. Params' values are brought back first; in a job of
// several processes, which may not all come to this, only Sync does that.
func (t *Trainer) Close() error {
	if t.c.Job.Size() > 1 {
		return t.exec.Close()
	}
	return t.trained.Close()
}
