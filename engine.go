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

// EngineConfig says what an engine trains and how.
type EngineConfig struct {
	// Model is what is trained; one that Parallelize made brings its plan, its optimizer and its strategy.
	Model Model
	// Loss is what is made small; nil is the model's own, if it is a LossModel.
	Loss Loss
	// Optimizer's zero value is AdamW with its defaults.
	Optimizer optim.Optimizer
	// Schedule is the learning rate; nil is the optimizer's, or a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm limits the norm of all gradients together; 0 does not.
	ClipNorm float64
	// Metrics are computed by Evaluate, besides the loss.
	Metrics []Metric
	// Strategy spreads training, evaluation and prediction over devices; nil is one. With Auto it is searched
	// for batches of the types Batch, on a machine that Calibration, a file of galley calibrate as text, tells
	// of; Plan says what was found.
	Strategy    *Strategy
	Batch       []Type
	Calibration []byte
	// Annotations say the layout of parameters that neither a plan nor the built-in one knows.
	Annotations []Annotation
	// Mode is how a step runs on one device.
	Mode Mode
	// Backend, where set, runs everything in place of the host, such as XLA on GPUs: on one, or as Strategy says
	// on several.
	Backend Backend
	// Compute, where it is a 16-bit dtype, is what products compute in.
	Compute array.DType
	// DetectNaN ends a step at the first op that makes a NaN, with its name and line; it is not for backends.
	DetectNaN bool
	// Job, where set, is the processes to which the strategy's devices are dealt; all of them run the same
	// program.
	Job *job.Job
	// Seed is that of the model's first values, for its checkpoints: Load refuses those of another; 0 is not
	// compared.
	Seed uint64
	// Callbacks are told what every Fit does.
	Callbacks []fit.Callback
	// Estimate, where set, tells Cost how long a step takes: Price, for language models on a machine that was
	// calibrated.
	Estimate func(c *Cost) time.Duration
}

// Engine trains a model, evaluates it and predicts with it, all on the same devices.
type Engine struct {
	compiled
	config EngineConfig
}

// NewEngine makes an engine. Close ends its devices.
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

// search makes of a strategy with Auto the model with the plan that was found for it.
func (c *EngineConfig) search() (plan *ModelPlan, err error) {
	if c.Strategy == nil || c.Strategy.Auto == 0 {
		return nil, nil
	}
	c.Model, plan, err = found(c.Model, PlanConfig{Loss: c.Loss, Optimizer: c.Optimizer, Batch: c.Batch,
		Calibration: c.Calibration, Strategy: *c.Strategy, Annotations: c.Annotations})
	c.Strategy, c.Annotations = nil, nil
	return plan, err
}

// DataLoader deals out a dataset in batches that the strategy can cut.
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

// Prepare plans and compiles what a phase does with batches of these types, and tells what it takes. Nothing
// runs; what follows begins at once.
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

// Cost returns what a training step on batches of these types takes: memory to the byte, operations,
// communication and, where the engine has an Estimate, time.
func (e *Engine) Cost(batch ...Type) (*Cost, error) { return e.Prepare(Training, batch...) }

// Run does with one batch what a phase says.
func (e *Engine) Run(ctx context.Context, phase Phase, batch ...array.Array) (r Result, err error) {
	return e.run(ctx, phase, batch)
}

// Evaluate returns the loss and the metrics over the first batches of a loader; 0 takes all of an epoch.
func (e *Engine) Evaluate(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return e.eval.Over(ctx, l, batches, e.trainer.Steps())
}

// Predict returns what the model answers to each of the first batches of a loader; 0 takes all of an epoch.
// Labels are not looked at.
func (e *Engine) Predict(ctx context.Context, l Loader, batches int) iter.Seq2[[]array.Array, error] {
	return fit.Predict(l, batches, func(batch []array.Array) ([]array.Array, error) {
		return e.predict.Run(ctx, batch[:model.InputsOf(e.config.Model, len(batch))]...)
	})
}
