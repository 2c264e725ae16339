package galley

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/model"
	"github.com/galley-ml/galley/optim"
)

// EngineConfig configures an Engine.
type EngineConfig struct {
	// Model is the model to train. One returned by Parallelize brings its own plan, optimizer and strategy.
	Model Model
	// Loss is minimised; nil uses the loss of a LossModel.
	Loss Loss
	// Optimizer defaults to AdamW.
	Optimizer optim.Optimizer
	// Schedule is the learning rate; nil uses the optimizer's, or a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	// Metrics are computed by Evaluate in addition to the loss.
	Metrics []Metric
	// Strategy distributes training, evaluation and prediction over devices; nil uses one device. With
	// Strategy.Auto it is searched for batches of the types Batch on the machine that Calibration, the
	// content of a file written by galley calibrate, describes; Plan returns the result.
	Strategy    *Strategy
	Batch       []Type
	Calibration []byte
	// Annotations request shardings for parameters that neither a layer plan nor the built-in plans cover.
	Annotations []Annotation
	// Mode selects compiled or eager steps on one device.
	Mode Mode
	// Backend, if set, runs everything on an accelerator, such as GPUs through XLA: on one device, or on as
	// many as Strategy needs.
	Backend Backend
	// Compute, if set to a 16-bit dtype, is the dtype of matrix products.
	Compute array.DType
	// DetectNaN makes a step fail at the first op that produces a NaN, with its name and line. Backends do
	// not support it.
	DetectNaN bool
	// Job, if set, is the multi-process job whose processes own the strategy's devices. Every process runs
	// the same program.
	Job *job.Job
	// Seed is the seed of the model's initial values. It is stored in checkpoints, and Load refuses a
	// checkpoint with another one; 0 is not compared.
	Seed uint64
	// Callbacks are called by every Fit.
	Callbacks []fit.Callback
	// Estimate, if set, fills in the step time of a Cost: for example Price, for language models on a
	// calibrated machine.
	Estimate func(c *Cost) time.Duration
}

// Engine trains a model, evaluates it and predicts with it, all on the same devices.
type Engine struct {
	compiled
	config EngineConfig
}

// NewEngine creates an engine. Close releases its devices.
func NewEngine(c EngineConfig) (*Engine, error) {
	plan, err := c.search()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	m, t, err := modelConfig("engine", c.Model, c.Loss, c.Optimizer, c.Strategy)
	if err != nil {
		return nil, err
	}
	if c.Loss == nil && !model.HasLoss(m) {
		return nil, fmt.Errorf("engine: want a loss, such as galley.CrossEntropy")
	}
	if c.Schedule != nil {
		t.Schedule = c.Schedule
	}
	if c.ClipNorm != 0 {
		t.ClipNorm = c.ClipNorm
	}
	t.Annotations = append(t.Annotations, c.Annotations...)
	t.Mode, t.Backend, t.Compute, t.DetectNaN, t.Seed, t.Job = c.Mode, c.Backend, c.Compute, c.DetectNaN, c.Seed,
		c.Job
	t.Facts = append(t.Facts, model.Facts(m)...)
	e := &Engine{config: c}
	if e.compiled, err = newCompiled(m, t, c.Loss, c.Metrics); err != nil {
		return nil, err
	}
	e.plan = plan
	return e, nil
}

// search replaces a strategy with Auto by the model with the plan that the search found.
func (c *EngineConfig) search() (plan *ModelPlan, err error) {
	if c.Strategy == nil || c.Strategy.Auto == 0 {
		return nil, nil
	}
	c.Model, plan, err = searchPlan(c.Model, PlanConfig{Loss: c.Loss, Optimizer: c.Optimizer, Batch: c.Batch,
		Calibration: c.Calibration, Strategy: *c.Strategy, Annotations: c.Annotations})
	c.Strategy, c.Annotations = nil, nil
	return plan, err
}

// DataLoader returns a loader that splits a dataset into batches that divide evenly under the strategy.
func (e *Engine) DataLoader(d data.Dataset, c data.LoaderConfig) (Loader, error) {
	if s := e.trainer.c.Strategy; s != nil && c.Batch > 0 {
		full, err := s.WithDefaults()
		if err != nil {
			return nil, err
		}
		if _, err := executor.MicroRows(c.Batch, full.Micro); err != nil {
			return nil, err
		}
	}
	return data.NewLoader(d, c)
}

// Prepare plans and compiles a phase for batches of the given types and returns its cost. Nothing runs; the
// first batch then starts without delay.
func (e *Engine) Prepare(phase Phase, batch ...Type) (*Cost, error) {
	cost := map[Phase]func(...Type) (*Cost, error){Training: e.trainer.Cost, Evaluating: e.evalPass.Cost,
		Predicting: e.predict.Cost}[phase]
	if cost == nil {
		return nil, fmt.Errorf("engine: %w", noPhase(phase))
	}
	c, err := cost(batch...)
	if err == nil && e.config.Estimate != nil {
		c.Time = e.config.Estimate(c)
	}
	return c, err
}

// Cost returns what a training step on batches of the given types costs: memory to the byte, operations,
// communication and, if the engine has an Estimate, time.
func (e *Engine) Cost(batch ...Type) (*Cost, error) { return e.Prepare(Training, batch...) }

// Run runs one batch in the given phase.
func (e *Engine) Run(ctx context.Context, phase Phase, batch ...array.Array) (r Result, err error) {
	return e.run(ctx, phase, batch)
}

// Evaluate returns the loss and the metrics over the first batches of a loader; 0 means one epoch.
func (e *Engine) Evaluate(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return e.eval.Over(ctx, l, batches, e.trainer.Steps())
}

// Predict returns the model's outputs for each of the first batches of a loader; 0 means one epoch. Labels
// are ignored.
func (e *Engine) Predict(ctx context.Context, l Loader, batches int) iter.Seq2[[]array.Array, error] {
	return fit.Predict(l, batches, func(batch []array.Array) ([]array.Array, error) {
		return e.predict.Run(ctx, batch[:model.InputsOf(e.config.Model, len(batch))]...)
	})
}
