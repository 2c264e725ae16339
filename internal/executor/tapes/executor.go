package tapes

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/optim"
)

// Executor runs a step on many in-process devices, each by its tape.
type Executor struct {
	h      *planner
	types  string
	runner *step.Runner
	// cut splits the runner's batches into micro-batches.
	cut *executor.Cutting
	// started is the runner, for calls of RunningOps from another goroutine.
	started atomic.Pointer[step.Runner]
	scale   optim.LossScale
	// forward is the devices of forward passes, copies holds the parameters there until training starts.
	forward *step.ForwardRunner
	copies  *weightCopies
	// plan is the step that was planned last, for batches of planTypes.
	plan      *step.Plan
	planCut   *executor.Cutting
	planTypes string
	// saved is a checkpoint from which the state is read when the first step is planned.
	saved *checkpoint.Reader
	// put holds replacements for tensors of saved.
	put map[step.Tensor]array.Array
}

// New returns an executor for a config. It plans with the first batch, when the types are known.
func New(c executor.Config) (*Executor, error) {
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	for _, p := range c.Params {
		if p.Value == nil && c.Load == nil && !p.Drawn() {
			return nil, fmt.Errorf("trainer: parameter %q has no value: make the model with a scope", p.Name)
		}
	}
	return &Executor{h: &planner{c, l}, scale: lossScaleOf(l.Strategy.AMP)}, nil
}

// Plan returns the plan of a config for batches of these types. Parameters need shapes, not values.
func Plan(c executor.Config, batch ...ir.Type) (*executor.Plan, error) {
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	s, _, err := (&planner{c, l}).newStep(batch)
	if err != nil {
		return nil, err
	}
	return executor.PlanOf(l.Strategy, s), nil
}

// Step runs one step.
func (e *Executor) Step(in executor.Input) (executor.Running, error) {
	if err := e.Start(executor.TypesOf(in.Batch)...); err != nil {
		return nil, err
	}
	parts, err := e.cut.Micros(in.Batch, int(in.Count))
	if err != nil {
		return nil, err
	}
	r, err := e.runner.Run(context.Background(), step.Input{
		Batch: parts, Scalars: []float64{in.LR, in.Count}, Weight: e.weight(in.Batch),
	})
	if err != nil {
		if e.runner.PartialUpdate() {
			err = &executor.PartialUpdateError{Err: err}
		}
		return nil, err
	}
	out := executor.Result{Loss: r.Loss, Norm: r.Norm}
	if e.h.Strategy.AMP == "f16" && executor.Finite(out.Loss) && e.scale.Scale > 1 {
		out.Skipped = !executor.Finite(out.Norm)
		e.scale = e.scale.Next(out.Skipped)
	}
	return out, nil
}

// weight returns the factor of the sum of losses. A loss scale is meant for a mean, so it is divided by the
// size of the batch.
func (e *Executor) weight(batch []array.Array) float64 {
	if e.scale.Scale == 1 {
		return 1
	}
	return e.scale.Scale / float64(largest(batch))
}

// largest returns the number of elements of the largest tensor of a batch.
func largest(batch []array.Array) (n int) {
	for _, a := range batch {
		n = max(n, a.Len())
	}
	return n
}

// Start plans the step for batches of these types and moves the state there.
func (e *Executor) Start(types ...ir.Type) error {
	key := fmt.Sprint(types)
	if e.runner != nil && e.types == key {
		return nil
	}
	s, err := e.planned(types)
	if err != nil {
		return err
	}
	c, err := e.h.runConfig()
	if err != nil {
		return err
	}
	w, err := e.h.c.World(s.Devices())
	if err != nil {
		return err
	}
	r, err := s.Start(w, c)
	if err != nil {
		return err
	}
	r.Watch(e.h.c.Watch)
	if err := e.fill(r); err != nil {
		r.Close()
		return err
	}
	if e.runner != nil {
		e.runner.Close()
	}
	e.runner, e.cut, e.types = r, e.planCut, key
	e.started.Store(r)
	return nil
}

// runConfig returns the settings that steps run with.
func (h *planner) runConfig() (c step.RunConfig, err error) {
	c = step.RunConfig{Observe: h.c.Observe, DetectNaN: h.c.DetectNaN, Threads: h.c.Device.Threads(),
		Backends: h.c.RankBackends}
	c.Offload, err = offloadOf(h.Strategy)
	return c, err
}

// planned returns the step for batches of these types.
func (e *Executor) planned(types []ir.Type) (*step.Plan, error) {
	if key := fmt.Sprint(types); e.plan == nil || e.planTypes != key {
		s, cut, err := e.h.newStep(types)
		if err == nil {
			err = e.h.c.CheckRanks(len(e.h.Meshes))
		}
		if err != nil {
			return nil, err
		}
		e.plan, e.planCut, e.planTypes = s, cut, key
	}
	return e.plan, nil
}

// Plan returns the plan of a step for batches of these types. It returns an error for any collective without
// matching calls on the other devices.
func (e *Executor) Plan(batch ...ir.Type) (*executor.Plan, error) {
	s, err := e.planned(batch)
	if err != nil {
		return nil, err
	}
	return executor.PlanOf(e.h.Strategy, s), nil
}

// Rows returns which rows of batches of these types some devices read: all if something is computed from the
// whole batch.
func (e *Executor) Rows(own func(device, of int) bool, batch ...ir.Type) ([]bool, error) {
	s, err := e.planned(batch)
	if err != nil || e.planCut.NeedsWhole() {
		return nil, err
	}
	mine := func(device int) bool { return own(device, s.Devices()) }
	return s.Rows(mine, len(batch), e.planCut.Rows), nil
}

// Runner returns the devices, for their statistics; nil before the first step.
func (e *Executor) Runner() *step.Runner { return e.runner }

// Memory returns the bytes that each device has allocated; nil before the first step.
func (e *Executor) Memory() (compiled cpu.Memory, taken []int) {
	if e.runner == nil {
		return compiled, nil
	}
	for d := range e.runner.Devices() {
		taken = append(taken, e.runner.Allocated(d))
	}
	return compiled, taken
}

// HoldsParams reports whether training has started, or continues from a checkpoint.
func (e *Executor) HoldsParams() bool { return e.runner != nil || e.saved != nil }

// RunningOps returns what the devices are running.
func (e *Executor) RunningOps() []step.RunningOp {
	if r := e.started.Load(); r != nil {
		return r.RunningOps()
	}
	return nil
}

// Close shuts the devices down.
func (e *Executor) Close() error {
	if e.runner != nil {
		e.runner.Close()
		e.runner = nil
	}
	if e.forward != nil {
		e.forward.Close()
		e.forward = nil
	}
	return e.closeSaved()
}

func (e *Executor) closeSaved() error {
	if e.saved == nil {
		return nil
	}
	defer func() { e.saved = nil }()
	return e.saved.Close()
}
