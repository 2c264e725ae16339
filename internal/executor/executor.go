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

// Executor takes the steps of a Config and holds its state on devices.
type Executor interface {
	// Plan returns the plan of a step on batches of the given types. No tensor memory is allocated.
	Plan(batch ...ir.Type) (*Plan, error)
	// Start prepares the devices for batches of the given types: it compiles programs and allocates memory.
	Start(batch ...ir.Type) error
	// Step starts a step. If it fails the state is unchanged, unless the error is a *PartialUpdateError.
	Step(in Input) (Running, error)
	// Reader returns a function that reads tensors of the current state, gathered from the devices. Each may be
	// read once.
	Reader() (Reader, error)
	// Load restores a checkpoint that fits the config (Config.Fits). It may be read later, when the devices
	// are prepared; it is closed after that.
	Load(r *checkpoint.Reader) error
	// Save returns the state for a checkpoint. It shares memory with the devices until the next step.
	Save() (checkpoint.State, error)
	// Put replaces a tensor of the state on the devices.
	Put(t Tensor, a array.Array) error
	// HoldsParams reports whether the current parameter values are on the executor's devices rather than in
	// Params.
	HoldsParams() bool
	// Memory returns the memory of the last compiled step, and the bytes that each device of a strategy has
	// allocated.
	Memory() (compiled cpu.Memory, taken []int)
	// RunningOps returns what each device is doing in the current step. It may be called from another goroutine.
	RunningOps() []step.RunningOp
	// Forward makes a forward pass of f on the devices that hold the parameters.
	Forward(f Func) Forward
	// Close releases everything that the executor holds.
	Close() error
}

// Gatherer is an executor whose devices may belong to several processes.
type Gatherer interface {
	// ReaderTo is like Reader for one process: the others take part in the collectives and receive no arrays.
	ReaderTo(process int) (Reader, error)
}

// RowReader is an executor that knows which rows of a batch its devices read.
type RowReader interface {
	// Rows returns the rows that some devices read of batches of the given types; nil means all. own reports
	// whether a device, out of a total number, is one of them.
	Rows(own func(device, of int) bool, batch ...ir.Type) ([]bool, error)
}

// Reader reads a tensor of the state.
type Reader = func(t Tensor) (array.Array, error)

// PartialUpdateError is returned by a step that failed during its update, so that the state is a mix of two
// steps.
type PartialUpdateError struct{ Err error }

func (e *PartialUpdateError) Error() string { return e.Err.Error() }
func (e *PartialUpdateError) Unwrap() error { return e.Err }

// Func is a function of a batch that computes with the parameters.
type Func = func(batch []*op.Tensor) []*op.Tensor

// Forward is a function of the parameters that runs without gradients on the devices that hold them.
type Forward interface {
	// Run returns the results of each micro-batch and the number of rows of each; rows is nil if the batch is
	// not split.
	Run(ctx context.Context, batch []array.Array) (parts [][]array.Array, rows []int, err error)
	// Plan returns the plan of a run.
	Plan(batch ...ir.Type) (*Plan, error)
	Close() error
}

// Input is the input of a step: the learning rate, the number of the update, counted from 1, and the batch.
type Input struct {
	LR, Count float64
	Batch     []array.Array
}

// Running is a step that has been started.
type Running interface {
	// Wait waits for the step and returns its result.
	Wait() (Result, error)
}

// Result is the result of a step.
type Result struct {
	Loss, Norm float64
	// Skipped marks a step whose gradients overflowed: only the loss scale changed.
	Skipped bool
}

// Wait returns the result of a step that has already finished.
func (r Result) Wait() (Result, error) { return r, nil }

// Tensor identifies a tensor of the state: a parameter by index or, if Slot is not -1, one of its optimizer
// slots.
type Tensor struct{ Param, Slot int }

// State returns all tensors of the state: each parameter followed by its slots.
func (c Config) State() []Tensor {
	var list []Tensor
	for i := range c.Params {
		for k := -1; k < c.Optimizer.Slots(); k++ {
			list = append(list, Tensor{i, k})
		}
	}
	return list
}

// Name returns the name of a state tensor in programs and checkpoints.
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

// Fits returns an error if a checkpoint has other tensors than the config.
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

// SaveWhole returns the state of an executor that gathers every tensor.
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

// LoadWhole passes every tensor of a checkpoint to put, gathered, and closes the checkpoint.
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

// Finite reports whether a number is neither infinite nor NaN.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
