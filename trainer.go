package galley

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/runfacts"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/xla"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// Mode selects how a training step runs on one device.
type Mode = executor.Mode

// Static traces and compiles the step once, Eager runs it op by op. The results are bit for bit the same.
const (
	Static = executor.Static
	Eager  = executor.Eager
)

// Backend is an accelerator that runs whole programs. Name describes it, Compile makes a program ready to
// run, Put copies an array to the device, Close releases everything.
type Backend = backend.Backend

// Share assigns a Backend a part of the batch in proportion to its Weight.
type Share = executor.Share

// XLAConfig selects and configures a PJRT plugin; the zero value uses the first that is found. Plugin is its
// path, Flags are XLA flags, Options the plugin's own options. Cache is a directory for compiled programs,
// Dump receives the StableHLO of each program, Mock makes the CUDA plugin pretend to have that many devices,
// and Values is the key-value store through which plugins of several processes exchange addresses.
type XLAConfig = xla.Config

// XLA opens the devices of a PJRT plugin: GPUs or TPUs. A program without a strategy uses the first device.
// Close releases them.
func XLA(c XLAConfig) (Backend, error) { return xla.Open(c) }

// Fact is a named property that identifies a run, such as its batch size. Checkpoints store the facts of
// their run; Resume refuses a checkpoint whose facts differ, unless ResumeConfig.Changed lists the
// differences.
type Fact = data.Fact

// Span is an interval of the timeline of a Device. Kind says whether it is scheduled work, a collective or
// the wait for a message; Name, Start and End describe it, and Live is the memory in use. A collective also
// has Since, when it was started, its Axes and Group, and the Bytes sent and received.
type Span = step.Span

// The kinds of spans.
const (
	SpanWork       = step.Work
	SpanExchange   = step.Exchange
	SpanMessage    = step.Message
	SpanCollective = step.Collective
)

// TrainerConfig configures a Trainer.
type TrainerConfig struct {
	Device *Device
	// Params are the parameters to train, except those marked by nn.Freeze. The trainer owns their memory
	// while it is in use.
	Params []*nn.Param
	// Loss computes the scalar to minimise from one batch.
	Loss func(batch []*Tensor) *Tensor
	// Optimizer defaults to AdamW.
	Optimizer optim.Optimizer
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	Mode     Mode
	// Compute, if set to a 16-bit dtype, is the dtype of matrix products. Parameters and optimizer state keep
	// theirs, and norms, sums and the loss are computed in f32.
	Compute array.DType
	// Backend, if set, runs compiled steps instead of Device. Parameters and optimizer state stay on it; the
	// values of Params are fetched when they are read.
	Backend Backend
	// RankBackends, if set, has one backend per pipeline rank of the Strategy; nil entries use the host.
	// Shares, without a Strategy, split a batch unevenly over backends of different speed.
	RankBackends []Backend
	Shares       []Share
	// Init is a program that computes the initial values of all Params on the Backend, for a model without
	// values.
	Init *Program
	// Load, if set, reads parts of Params that have no value yet, for example models.Weights.ReadBox, so that
	// each device of a strategy reads only its own shards. On one device, or with a Backend, whole tensors
	// are read.
	Load func(p *nn.Param, box mesh.Box, dst array.Array) error
	// Recompute selects the activations that a Backend recomputes in the backward pass instead of keeping
	// them: none (the default), selective (all but products and attention) or full (everything within a
	// layer).
	Recompute strategy.Recompute
	// SkipNorm omits the gradient norm from the metrics when nothing clips, which saves a pass over all
	// gradients.
	SkipNorm bool
	// DetectNaN makes a step fail at the first op that produces a NaN, with its name and line. It costs one
	// more read of every result.
	DetectNaN bool
	// Observe, if set, receives the time of each node of a compiled step. With a strategy it is called from
	// many goroutines.
	Observe func(n *Node, took time.Duration)
	// Strategy, if set, distributes the step over in-process devices, or over those of the Backend as one
	// SPMD program. The values of Params are then fetched when they are read. Annotations request shardings
	// for parameters that the built-in plans do not cover.
	Strategy    *Strategy
	Annotations []Annotation
	// Parallel, if set, is a plan of layers. Its strategy is used if Strategy is nil.
	Parallel *Parallel
	// Facts and Seed identify this run, in addition to optimizer, schedule and clipping. Checkpoints store
	// them, and Resume refuses a checkpoint of another run.
	Facts []Fact
	Seed  uint64
	// Watch, if set, receives the timeline of a strategy's devices, from many goroutines.
	Watch func(Span)
	// Job, if set, is the multi-process job whose processes own the strategy's devices. All of them create
	// the same trainer and take the same steps, and all get the same losses.
	Job *job.Job

	// loaded has the layouts in which a loader puts the tensors of a batch, zeroAxis is the axis that shards the
	// optimizer, where the source line that requests the strategy.
	loaded   []op.Layout
	zeroAxis string
	where    ir.Pos
}

// withDefaults fills in defaults and checks the config.
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

// executor returns the executor's part of the config.
func (c TrainerConfig) executor() executor.Config {
	return executor.Config{
		Device: c.Device, Params: c.Params, Loss: c.Loss, Optimizer: c.Optimizer, ClipNorm: c.ClipNorm,
		Mode:    c.Mode,
		Compute: c.Compute, Backend: c.Backend, Init: c.Init, Load: c.Load, Recompute: c.Recompute,
		SkipNorm:  c.SkipNorm,
		DetectNaN: c.DetectNaN, Observe: c.Observe, Watch: c.Watch, World: c.Job.Devices, Strategy: c.Strategy,
		Annotations: c.Annotations, Loaded: c.loaded, ZeroAxis: c.zeroAxis, Where: c.where,
		Layers: c.Parallel.Layers(), RankBackends: c.RankBackends, Shares: c.Shares,
	}
}

// Trainer trains parameters step by step on one device, many devices or a backend.
type Trainer struct {
	c TrainerConfig
	// exec takes the steps and holds the state.
	exec executor.Executor
	// step counts the steps taken, skipped those of them that changed nothing because gradients overflowed.
	step, skipped int
	// sample counts the samples trained on, over all runs.
	sample int64
	// described has the facts of the loader that Fit uses.
	loaderFacts []Fact
	// trained tracks parameter values that are on the executor's devices.
	trained *executor.Trained
}

// NewTrainer creates a trainer at step 0 with a zero optimizer state.
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
			"trainer: a job of %d processes: a backend's devices belong to one process: want one process",
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

// facts returns the facts from the config and those that the trainer derives from its optimizer and seed.
func (t *Trainer) facts() []Fact {
	return runfacts.Of(slices.Concat(t.c.Facts, t.loaderFacts), runfacts.Run{Optimizer: t.c.Optimizer,
		Schedule: t.c.Schedule, ClipNorm: t.c.ClipNorm, Seed: t.c.Seed})
}

// TraceStep returns the program of a whole training step on batches of the given types. Its parameters are
// the model's parameters, the optimizer's slots, the learning rate, the step number and the batch; its
// results are the loss, the gradient norm, and the next parameters and slots. The model needs shapes, not
// values.
func TraceStep(c TrainerConfig, batch ...Type) (p *Program, err error) {
	defer fault.Recover("trace of the training step", &err)
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	return c.executor().TraceStep(batch)
}

// Metrics are the results of one step: its index, loss, gradient norm and learning rate.
type Metrics = fit.Metrics

// DivergedError is returned by a step whose loss or gradient norm is NaN or infinite.
type DivergedError = fit.DivergedError

// Step trains on one batch.
func (t *Trainer) Step(batch ...array.Array) (Metrics, error) {
	p, err := t.Start(batch...)
	if err != nil {
		return Metrics{Step: t.step, LR: t.c.Schedule.At(t.step)}, err
	}
	return p.Wait()
}

// Pending is a step that has been started.
type Pending struct {
	m       Metrics
	running executor.Running // nil once it is done
	err     error
}

// Start starts a step on a backend and returns before it finishes, so that the next step can be prepared or
// started meanwhile. Without a backend the step is finished when Start returns.
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

// Wait waits for the step to finish and returns its metrics.
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

// Steps returns the number of steps taken.
func (t *Trainer) Steps() int { return t.step }

// Memory returns the memory of the last compiled step on one device or on a backend. It is zero before the
// first step and in eager mode.
func (t *Trainer) Memory() Memory {
	m, _ := t.exec.Memory()
	return m
}

// MemoryAllocated returns the bytes that each device of a strategy has allocated, equal to what Plan
// predicted, or nil before the first step.
func (t *Trainer) MemoryAllocated() []int {
	_, taken := t.exec.Memory()
	return taken
}

// RunningOps returns a line per device with what it is doing in the current step: the stage, the micro-batch
// and the op or collective with its source line, or the program that a backend is running. It returns nil
// between steps. Call it while a step runs to find out where it hangs.
func (t *Trainer) RunningOps() []string {
	var list []string
	for _, d := range t.exec.RunningOps() {
		list = append(list, d.String())
	}
	return list
}

// Averaged returns the moving averages that an optim.Averaged optimizer keeps, in the order of Params. For a
// frozen parameter or a buffer it is the value itself.
func (t *Trainer) Averaged() ([]array.Array, error) {
	return t.c.executor().Averages(t.exec, t.step-t.skipped)
}

// Sync copies trained parameters from a backend or from a strategy's devices back to the values of Params, as
// tensors of s, or of a new session of the trainer's device if s is nil. In a job all processes must call it,
// and the first process receives the values.
func (t *Trainer) Sync(s *Session) error {
	if s == nil && t.c.Device != nil {
		s = t.c.Device.NewSession()
	}
	if s == nil {
		return fmt.Errorf("trainer: parameters are on %s: want a session to bring them back to", t.c.Backend.Name())
	}
	return t.trained.Sync(s, t.c.Job.First())
}

// ReadParams calls f with the current value of each parameter in turn, so that only one is gathered at a
// time. In a job all processes must call it, and f is called in the first.
func (t *Trainer) ReadParams(f func(p *nn.Param, value array.Array) error) error {
	if !t.c.Job.First() {
		f = func(*nn.Param, array.Array) error { return nil }
	}
	return t.trained.Each(f)
}

// Close releases the devices after copying the parameters back. In a job of several processes, which might
// not all reach Close, it does not copy: call Sync first.
func (t *Trainer) Close() error {
	if t.c.Job.Size() > 1 {
		return t.exec.Close()
	}
	return t.trained.Close()
}
