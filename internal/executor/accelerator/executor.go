package accelerator

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/strategy"
)

// Executor runs steps on a backend, which holds the state: the parameters, then the optimizer's slots.
type Executor struct {
	b backend.Backend
	// group is the layout of tensors on several devices; nil means one device.
	group *group
	// micro is the number of micro-batches of a batch.
	micro int
	// model is the config as given; in c fused tensors of the state replace the parameters that they are made
	// of.
	model, c   executor.Config
	fused      *fused
	stateFused bool
	// split lists the state's weights that are split master weights, as the first step chose them: their upper
	// halves follow the owned part of the state.
	split  []int
	chosen bool
	owned  int
	// state holds the buffers by device.
	state [][]backend.Buffer
	exes  map[string]backend.Executable
	// losses holds the loss as programs of micro-batches, by the types of batches.
	losses map[string]*cutLoss
	memory cpu.Memory
	// inFlight is the operations that the backend has not finished.
	inFlight inFlight
}

// New copies the parameters to the backend, or initializes them there.
func New(c executor.Config) (*Executor, error) {
	r, err := prepared(c)
	if err != nil {
		return nil, err
	}
	if err := r.placeParams(r.model); err != nil {
		return nil, err
	}
	return r, r.makeSlots(r.model)
}

// prepared checks the config and returns an executor for it, without any state.
func prepared(c executor.Config) (r *Executor, err error) {
	if c.Mode == executor.Eager {
		return nil, fmt.Errorf("trainer: a backend runs compiled steps: mode is %v, want %v", c.Mode,
			executor.Static)
	}
	if c.DetectNaN {
		return nil, fmt.Errorf(
			"trainer: DetectNaN looks at every op: %s runs whole programs: train without a backend",
			c.Backend.Name(),
		)
	}
	r = &Executor{b: c.Backend, exes: map[string]backend.Executable{}, losses: map[string]*cutLoss{}}
	if c, r.micro, err = onBackend(c); err != nil {
		return nil, err
	}
	switch c.Recompute {
	case "", "none", "selective", "full":
	default:
		return nil, fmt.Errorf("trainer: recompute is %q: want none, selective or full", c.Recompute)
	}
	if c.Strategy != nil {
		if r.group, err = newGroup(c); err != nil {
			return nil, err
		}
	}
	r.model, r.c = c, c
	r.owned = len(c.Params) * (1 + c.Optimizer.Slots())
	return r, nil
}

// onBackend applies the strategy's compute dtype, recomputation and micro-batches, and returns their number.
// The remaining strategy is nil, or is for several devices.
func onBackend(c executor.Config) (executor.Config, int, error) {
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
		return c, 1, fmt.Errorf("trainer: amp is f16: a backend computes in bf16, which needs no loss scaling")
	}
	s.Recompute, s.AMP = "none", "off"
	if c.Strategy = &s; s.String() == (strategy.Strategy{Micro: s.Micro}).String() {
		c.Strategy = nil
	}
	return c, s.Micro, nil
}

// Start compiles the programs of a step on batches of these types.
func (r *Executor) Start(batch ...ir.Type) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.micro > 1 {
		_, err := r.microSteps(batch)
		return err
	}
	_, err := r.wholeStep(batch)
	return err
}

// Step starts a step and returns before it is done, so that the caller can prepare or start the next one
// meanwhile.
func (r *Executor) Step(in executor.Input) (executor.Running, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	start := r.startWhole
	if r.micro > 1 {
		start = r.startParts
	}
	end := r.inFlight.begin("step")
	results, err := start([]array.Array{r.c.Scalar(in.LR), r.c.Scalar(in.Count)}, in.Batch)
	if err != nil {
		end()
		return nil, err
	}
	for i, list := range results {
		r.state[i] = list[executor.Metrics:]
		if i > 0 { // the results of the first device are used
			list[0].Free()
			list[1].Free()
		}
	}
	p := &running{loss: results[0][0], norm: results[0][1], end: end}
	if r.c.SkipNorm && r.c.ClipNorm == 0 {
		p.norm.Free()
		p.norm = nil
	}
	return p, nil
}

// running is a started step and the buffers of its metrics.
type running struct {
	loss, norm backend.Buffer
	end        func()
}

// Wait waits for the step and returns its metrics.
func (p *running) Wait() (r executor.Result, err error) {
	defer p.end()
	for _, of := range []struct {
		b  backend.Buffer
		to *float64
	}{{p.loss, &r.Loss}, {p.norm, &r.Norm}} {
		if of.b == nil {
			continue
		}
		a, err := of.b.Read()
		if err != nil {
			return r, err
		}
		*of.to = a.At(0)
		of.b.Free()
	}
	return r, nil
}

// startWhole starts the step as one program. Its results are by device.
func (r *Executor) startWhole(numbers, batch []array.Array) ([][]backend.Buffer, error) {
	exe, err := r.wholeStep(executor.TypesOf(batch))
	if err == nil {
		err = r.splitWeights()
	}
	if err != nil {
		return nil, err
	}
	all := append(numbers, batch...)
	return r.call(exe, r.state, inputs{all, len(numbers), len(all)})
}

// policy returns the recomputation policy of a step.
func policy(c executor.Config) stage.Recompute {
	return map[strategy.Recompute]stage.Recompute{"selective": stage.RecomputeSelective,
		"full": stage.RecomputeFull}[c.Recompute]
}

// wholeStep returns the compiled step for batches of these types.
func (r *Executor) wholeStep(types []ir.Type) (backend.Executable, error) {
	if err := r.fuseState(types); err != nil {
		return nil, err
	}
	return r.compiled(fmt.Sprint(types), func() (backend.Executable, error) {
		p, at, err := r.program(types)
		if err != nil {
			return nil, err
		}
		exe, err := r.compile(p, at, executor.UpTo(0, r.owned+len(r.split)))
		if err == nil {
			r.memory = exe.Memory()
		}
		return exe, err
	})
}

// program returns the step's program, and the layouts of its inputs and outputs on several devices.
func (r *Executor) program(batch []ir.Type) (*ir.Func, layouts, error) {
	if r.group != nil {
		return r.group.step(batch)
	}
	p, err := r.traced(batch)
	if err == nil && !r.chosen && r.c.Compute == array.BF16 {
		// The first step chooses the split master weights, for all. Their update waits for all gradients, so it is
		// traced again.
		r.chosen, r.split = true, roundedWeights(p, len(r.c.Params))
		if r.c.UpdateBarrier = len(r.split) > 0; r.c.UpdateBarrier {
			p, err = r.traced(batch)
		}
	}
	if err == nil && len(r.split) > 0 {
		p, err = onSplit(p, r.split, r.owned, executor.Metrics)
	}
	if err == nil {
		p, err = executor.Recomputed(p, len(r.c.Params), 1, policy(r.c), nil)
	}
	return p, layouts{}, err
}

func (r *Executor) traced(batch []ir.Type) (*ir.Func, error) {
	p, err := r.c.TraceStep(batch)
	if err == nil {
		err = r.checkMeshes(p)
	}
	if err != nil {
		return nil, err
	}
	return r.c.OptimizeProgram(p)
}

// checkMeshes returns an error if a program requests other devices than the one available.
func (r *Executor) checkMeshes(p *ir.Func) error {
	if r.group != nil {
		return nil
	}
	return layout.CheckConstraints(p)
}

// open returns an error if the state has been closed or lost.
func (r *Executor) open() error {
	if r.state == nil {
		return fmt.Errorf(
			"trainer: it has no state on %s any more: it was closed, or lost it when a step failed: make another "+
				"and Resume",
			r.b.Name(),
		)
	}
	return nil
}

// free releases buffers, given by device.
func free(lists [][]backend.Buffer) {
	for _, list := range lists {
		for _, b := range list {
			b.Free()
		}
	}
}

// HoldsParams returns true: the state is on the backend from the start.
func (r *Executor) HoldsParams() bool { return true }

// Memory returns what the largest program of a step needs, as reported by the backend.
func (r *Executor) Memory() (compiled cpu.Memory, taken []int) { return r.memory, nil }

// Close releases what the executor holds on the backend.
func (r *Executor) Close() error {
	free(r.state)
	r.state = nil
	for _, exe := range r.exes {
		if err := exe.Close(); err != nil {
			return err
		}
	}
	return nil
}
