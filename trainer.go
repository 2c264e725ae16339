package galley

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

// Mode is how a training step runs.
type Mode uint8

// A step is traced and compiled once, or runs op by op. The numbers are the same.
const (
	Static Mode = iota
	Eager
)

func (m Mode) String() string {
	if m == Eager {
		return "eager"
	}
	return "static"
}

// TrainerConfig says what is trained and how.
type TrainerConfig struct {
	Device *Device
	// Params are changed by training; the trainer owns their memory while it is used.
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
	// Compute, where it is a 16-bit dtype, is what products compute in; parameters and the optimizer stay as they are, and
	// norms, sums and the loss compute in f32. The zero value computes in the parameters' own dtype.
	Compute array.DType
	// Backend, where set, runs compiled steps in place of Device. Parameters and optimizer state stay on it; Params' values are
	// brought back when somebody reads them.
	Backend Backend
	// Init is a program that makes the first values of all Params on the Backend, for a model without values.
	Init *Program
	// Recompute is what the backward pass on a Backend computes again in place of keeping it: none, which empty means too,
	// selective for all but products and attention, or full for all within a layer.
	Recompute string
	// SkipNorm leaves the gradients' norm out of the metrics where nothing clips: a pass over all gradients less.
	SkipNorm bool
	// DetectNaN ends a step at the first op that makes a NaN, with its name and line. It reads every result once more.
	DetectNaN bool
	// Observe, where set, is told how long each node of a compiled step took; with a strategy from many goroutines.
	Observe func(n *Node, took time.Duration)
	// Strategy, where set, spreads the step over in-process devices, or over those of the Backend as one program; Params' values
	// are then brought back when somebody reads them. Annotations say how parameters lie that the built-in plan does not know.
	Strategy    *Strategy
	Annotations []Annotation
	// Parallel, where set, is a plan of layers; its strategy counts where none is given.
	Parallel *Parallel
	// Facts and Seed are what makes this run what it is, besides optimizer, schedule and clipping: checkpoints keep them, and
	// Resume refuses one of another run.
	Facts []Fact
	Seed  uint64
	// Watch, where set, is told what the devices of a strategy do, from many goroutines.
	Watch func(Span)

	// settle is whether the update waits for all gradients: it may then write over what these were computed from.
	settle bool
}

// Trainer trains parameters step by step.
type Trainer struct {
	c       TrainerConfig
	session *Session
	slots   []array.Array
	step    int
	// skipped is how many of the steps changed nothing, since their gradients overflowed.
	skipped int
	// exes is the compiled steps by the types of their batches; last is the one that ran last.
	exes map[string]*Executable
	last *Executable
	// many is the step on many devices, where a strategy is given.
	many *manyDevices
	// remote is what lies on a backend; nil without one.
	remote *remote
	// described is what the loader of a fit says of itself.
	described []Fact
	// trained is the parameters' values where they lie on either.
	trained trained
}

// NewTrainer starts at step 0 with the optimizer's memory at zero.
func NewTrainer(c TrainerConfig) (*Trainer, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Backend != nil {
		if c.DetectNaN {
			return nil, fmt.Errorf("trainer: DetectNaN looks at every op: %s runs whole programs: train without a backend", c.Backend.Name())
		}
		return newRemoteTrainer(c)
	}
	if c.Device == nil {
		return nil, fmt.Errorf("trainer: want a device")
	}
	if c.DetectNaN {
		c.Device = c.Device.DetectNaN()
	}
	if c.Strategy != nil && c.Mode == Eager {
		return nil, fmt.Errorf("trainer: mode is %v: strategy %q runs compiled steps: want %v, or no strategy and tensors on meshes", c.Mode, c.Strategy, Static)
	}
	t := &Trainer{c: c, session: c.Device.NewSession(), exes: map[string]*Executable{}}
	if c.Strategy != nil {
		if t.many, err = newManyDevices(c); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Params {
		if p.Value == nil {
			return nil, fmt.Errorf("trainer: parameter %q has no value: make the model with a scope", p.Name)
		}
		for range c.Optimizer.Slots() {
			if t.many != nil {
				break // its devices have them
			}
			t.slots = append(t.slots, array.New(p.Type.DType, p.Type.Shape...))
		}
	}
	return t, nil
}

// Metrics is what one step tells.
type Metrics struct {
	// Step is 0 for the first.
	Step int
	// Loss is before the step's update.
	Loss float64
	// GradNorm is the norm of all gradients, before clipping.
	GradNorm float64
	LR       float64
	// Skipped is a step in f16 whose gradients overflowed: it changed nothing but the scale of the loss.
	Skipped bool
	// Wait is how long a fit waited for the batch: data that is slower than the step.
	Wait time.Duration
}

// DivergedError is a step whose loss or gradients are not finite numbers.
type DivergedError struct{ Metrics Metrics }

func (e *DivergedError) Error() string {
	if e.Metrics.Step == 0 {
		return fmt.Sprintf("step 1: loss is %v and gradient norm %v before any update: the first weights, the batch or the loss give them, "+
			"not the learning rate: look there, or set DetectNaN (--detect-nan) to see the first op", e.Metrics.Loss, e.Metrics.GradNorm)
	}
	return fmt.Sprintf("step %d: loss is %v and gradient norm %v: training diverged: lower the learning rate (it was %.3g) or clip",
		e.Metrics.Step+1, e.Metrics.Loss, e.Metrics.GradNorm, e.Metrics.LR)
}

// Step trains on one batch.
func (t *Trainer) Step(batch ...array.Array) (m Metrics, err error) {
	defer recoverBug(fmt.Sprintf("training step %d", t.step), &err)
	if t.remote != nil {
		return t.stepRemote(batch)
	}
	m = Metrics{Step: t.step, LR: t.c.Schedule.At(t.step)}
	if t.many != nil {
		return t.stepMany(m, batch)
	}
	params, err := t.params()
	if err != nil {
		return m, err
	}
	args := slices.Concat(params, t.slots, []array.Array{t.scalar(m.LR), t.scalar(float64(t.step + 1 - t.skipped))}, batch)
	results, err := t.run(args)
	if err != nil {
		return m, err
	}
	m.Loss, m.GradNorm = results[0].At(0), results[1].At(0)
	for i, p := range t.c.Params {
		p.Value = t.session.Tensor(results[2+i]).Track()
	}
	t.slots = results[2+len(params):]
	t.step++
	if bad(m.Loss) || bad(m.GradNorm) {
		return m, &DivergedError{m}
	}
	return m, nil
}

func bad(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

func (t *Trainer) params() ([]array.Array, error) {
	out := make([]array.Array, len(t.c.Params))
	for i, p := range t.c.Params {
		a, err := cpu.Read(p.Value)
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		out[i] = a
	}
	return out, nil
}

func (t *Trainer) scalar(x float64) array.Array {
	if t.c.scalarType().DType == array.F64 {
		return array.Scalar(x)
	}
	return array.Scalar(float32(x))
}

// run executes one step on arrays, in either mode.
func (t *Trainer) run(args []array.Array) ([]array.Array, error) {
	if t.c.Mode == Eager {
		return t.runEager(args)
	}
	exe, err := t.compiled(args[len(t.c.Params)+len(t.slots)+2:])
	if err != nil {
		return nil, err
	}
	t.last = exe
	return exe.Run(args)
}

// compiled is the step for batches of these types: a batch of another size is compiled once, too.
func (t *Trainer) compiled(batch []array.Array) (*Executable, error) {
	var types []Type
	for _, a := range batch {
		types = append(types, ir.TypeOf(a))
	}
	key := fmt.Sprint(types)
	if exe, ok := t.exes[key]; ok {
		return exe, nil
	}
	exe, err := t.compile(types)
	if err == nil {
		t.exes[key] = exe
	}
	return exe, err
}

func (t *Trainer) compile(batch []Type) (*Executable, error) {
	p, err := TraceStep(t.c, batch...)
	if err == nil {
		err = checkConstraints(p)
	}
	if err != nil {
		return nil, err
	}
	return Compile(t.c.Device, p, Options{Donate: upTo(0, len(t.c.Params)+len(t.slots)), Observe: t.c.Observe})
}

func (t *Trainer) runEager(args []array.Array) ([]array.Array, error) {
	in := make([]*Tensor, len(args))
	for i, a := range args {
		in[i] = t.session.Tensor(a)
		if i < len(t.c.Params) {
			in[i] = in[i].Track()
		}
	}
	results := t.c.step(in)
	out := make([]array.Array, len(results))
	for i, r := range results {
		a, err := cpu.Read(r)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

// Steps is how many steps have been taken.
func (t *Trainer) Steps() int { return t.step }

// micro is how many micro-batches a step takes.
func (t *Trainer) micro() int {
	switch {
	case t.remote != nil:
		return t.remote.micro
	case t.many != nil:
		return t.many.h.s.Micro
	}
	return 1
}

// Memory is what the last compiled step needs; zero before the first step and in eager mode.
func (t *Trainer) Memory() cpu.Memory {
	if t.remote != nil {
		return t.remote.memory
	}
	if t.last == nil {
		return cpu.Memory{}
	}
	return t.last.Memory()
}
