package executor

import (
	"context"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/op"
)

// Executor takes the steps of a Config and keeps its state on devices.
type Executor interface {
	// Plan returns what a step on batches of these types takes, known before it runs. No memory for tensors
	// is taken.
	Plan(batch ...ir.Type) (*Plan, error)
	// Start makes the devices ready for batches of these types: programs are compiled, memory is taken.
	Start(batch ...ir.Type) error
	// Step begins a step. What fails before it has begun leaves the state as it was.
	Step(in Input) (Running, error)
	// Reader reads tensors of the state as it is now, each whole and once.
	Reader() (Reader, error)
	// Load takes the state of a checkpoint, which is checked to be of this config, and closes it when it is
	// read.
	Load(r *checkpoint.Reader) error
	// Save returns the state as a checkpoint keeps it, shared with the devices until the next step.
	Save() (checkpoint.State, error)
	// Put replaces a tensor of the state, where it is on devices of the executor.
	Put(t Tensor, a array.Array) error
	// Away reports whether the parameters' values are on devices of the executor, and not in Params.
	Away() bool
	// Memory returns what the last compiled step needs, and the bytes that each device of a strategy has
	// taken.
	Memory() (compiled cpu.Memory, taken []int)
	// Doing returns what each device is at in the step that runs. It may be called from another goroutine.
	Doing() []step.Doing
	// Forward makes a forward pass of f, which computes with the parameters where they are.
	Forward(f Func) Forward
	// Close gives back all that the executor holds.
	Close() error
}

// Gatherer is an executor whose devices may be of several processes.
type Gatherer interface {
	// ReaderTo is Reader for one process: the others take part, and get no arrays from devices.
	ReaderTo(process int) (Reader, error)
}

// Reader reads a tensor of the state.
type Reader = func(t Tensor) (array.Array, error)

// TornError is a step that failed while it changed the state: that is of two steps now.
type TornError struct{ Err error }

func (e *TornError) Error() string { return e.Err.Error() }
func (e *TornError) Unwrap() error { return e.Err }

// Func is a function of a batch that computes with the parameters.
type Func = func(batch []*op.Tensor) []*op.Tensor

// Forward is a function of the parameters that is run without gradients, on the devices where training keeps
// them.
type Forward interface {
	// Run returns the results for each micro-batch, and how many of the batch's rows each has; rows is nil
	// where a batch is not cut.
	Run(ctx context.Context, batch []array.Array) (parts [][]array.Array, rows []int, err error)
	// Plan returns what a run takes.
	Plan(batch ...ir.Type) (*Plan, error)
	Close() error
}

// Input is what a step is given: the learning rate, the number of the update, from 1 on, and the batch.
type Input struct {
	LR, Count float64
	Batch     []array.Array
}

// Running is a step that was begun.
type Running interface {
	// Wait returns its result, when it is done.
	Wait() (Result, error)
}

// Result is what a step tells.
type Result struct {
	Loss, Norm float64
	// Skipped is a step whose gradients overflowed: it changed nothing but the scale of the loss.
	Skipped bool
}

// Wait returns the result of a step that is already done.
func (r Result) Wait() (Result, error) { return r, nil }

// Tensor names a piece of the state: a parameter by its number or, where Slot is not -1, one of the
// optimizer's slots of it.
type Tensor struct{ Param, Slot int }

// State returns all of the state: each parameter with its slots behind it.
func (c Config) State() []Tensor {
	var list []Tensor
	for i := range c.Params {
		for k := -1; k < c.Optimizer.Slots(); k++ {
			list = append(list, Tensor{i, k})
		}
	}
	return list
}

// Name returns what a tensor of the state is called in programs and checkpoints.
func (c Config) Name(t Tensor) string {
	if t.Slot < 0 {
		return c.Params[t.Param].Name
	}
	return SlotName(c.Params[t.Param].Name, t.Slot)
}

// Type returns the type of a tensor of the state.
func (c Config) Type(t Tensor) ir.Type {
	if t.Slot < 0 {
		return c.Params[t.Param].Type
	}
	return c.SlotTypes(t.Param)[t.Slot]
}

// Fits returns an error where a checkpoint has other tensors than the config: a longer model's would else be
// taken for its own.
func (c Config) Fits(r *checkpoint.Reader) error {
	known := map[string]bool{}
	for _, x := range c.State() {
		name, want := c.Name(x), c.Type(x)
		known[name] = true
		got, ok := r.Type(name)
		if !ok {
			return fmt.Errorf("it has no %s: it is of another model or optimizer", name)
		}
		if !got.Equal(want) {
			return fmt.Errorf("%s: got %v, want %v: it is of another model", name, got, want)
		}
	}
	for _, x := range r.Tensors() {
		if !known[x.Name] {
			return fmt.Errorf("it has %s, which the model or its optimizer does not: it is of another", x.Name)
		}
	}
	return nil
}

// SaveWhole returns the state of an executor that reads every tensor whole.
func (c Config) SaveWhole(e Executor) (s checkpoint.State, err error) {
	read, err := e.Reader()
	if err != nil {
		return s, err
	}
	for _, t := range c.State() {
		a, err := read(t)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.Name(t), err)
		}
		s.Tensors = append(s.Tensors, checkpoint.Whole(c.Name(t), a))
	}
	return s, nil
}

// LoadWhole hands every tensor of a checkpoint to put, whole, and closes it.
func (c Config) LoadWhole(r *checkpoint.Reader, put func(t Tensor, a array.Array) error) error {
	for _, t := range c.State() {
		a, err := r.ReadWhole(c.Name(t))
		if err != nil {
			return err
		}
		if err := put(t, a); err != nil {
			return err
		}
	}
	return r.Close()
}

// Finite reports whether a number is neither infinite nor undefined.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
