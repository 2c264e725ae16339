package galley

import (
	"context"
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/model"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

// Phase selects what is done with a batch: training, evaluation or prediction.
type Phase uint8

// Training updates the parameters and returns the loss, Evaluating only returns the loss, Predicting returns
// the model's outputs.
const (
	Training Phase = iota
	Evaluating
	Predicting
)

func (p Phase) String() string {
	if p > Predicting {
		return fmt.Sprintf("phase %d", uint8(p))
	}
	return [...]string{"training", "evaluating", "predicting"}[p]
}

// Result is the result of running one batch.
type Result struct {
	Loss float64
	// Metrics is set by a training step, Outputs by a prediction.
	Metrics Metrics
	Outputs []array.Array
}

// compiled is a model on the devices of a strategy, with one program per phase.
type compiled struct {
	model   Model
	plan    *ModelPlan // nil if no plan was searched
	trainer *Trainer
	eval    *evaluation.Evaluation // nil without a loss
	// evalPass and predict are the forward passes of evaluation and prediction.
	evalPass, predict *Forward
}

// newCompiled makes the trainer of a config and the forward passes of a model.
func newCompiled(m Model, c TrainerConfig, loss Loss, metrics []Metric) (out compiled, err error) {
	out.model = m
	if out.trainer, err = NewTrainer(c); err != nil {
		return out, err
	}
	out.predict = out.trainer.NewForward(func(batch []*Tensor) []*Tensor { return m.Forward(batch...) })
	if loss != nil || model.HasLoss(m) {
		out.eval, out.evalPass = newEvaluation(out.trainer, m, loss, metrics)
	}
	return out, nil
}

// modelConfig returns the model as its strategy trains it, and a trainer config for it.
func modelConfig(
	who string,
	m Model,
	loss Loss,
	optimizer optim.Optimizer,
	s *Strategy,
) (Model, TrainerConfig,
	error) {
	device, err := model.DeviceOf(who, m)
	if err != nil {
		return nil, TrainerConfig{}, err
	}
	noLoss := func([]*Tensor) *Tensor { return nil } // for a model that does not train
	c := TrainerConfig{Device: device, Params: m.Params(), Strategy: s, Loss: noLoss, where: ir.Caller()}
	if p, ok := m.(*Parallel); ok {
		c.Parallel = p
		if s == nil {
			c.Strategy = p.Strategy
		}
		if optimizer == nil {
			optimizer = p.Optimizer
		}
	}
	if optimizer != nil {
		if err := optimizerOf(optimizer).configure(&c); err != nil {
			return nil, c, err
		}
	}
	m = model.Under(m, c.Strategy)
	if loss != nil || model.HasLoss(m) {
		c.Loss = model.LossOf(m, loss)
	}
	return m, c, nil
}

// run runs one batch in the given phase.
func (c *compiled) run(ctx context.Context, phase Phase, batch []array.Array) (r Result, err error) {
	if err := executor.CheckBatch(ctx, batch); err != nil {
		return r, err
	}
	switch phase {
	case Training:
		r.Metrics, err = c.trainer.Step(batch...)
		r.Loss = r.Metrics.Loss
	case Evaluating:
		r.Loss, err = c.eval.Batch(ctx, batch)
	case Predicting:
		r.Outputs, err = c.predict.Run(ctx, batch...)
	default:
		err = noPhase(phase)
	}
	return r, err
}

func noPhase(p Phase) error {
	return fmt.Errorf("phase %d: want Training, Evaluating or Predicting", p)
}

// Params returns the model's parameters with their trained values.
func (c *compiled) Params() ([]*nn.Param, error) { return c.model.Params(), c.trainer.Sync(nil) }

// Plan returns the plan that was found for a strategy with Auto, and nil otherwise.
func (c *compiled) Plan() *ModelPlan { return c.plan }

// Trainer returns the underlying trainer.
func (c *compiled) Trainer() *Trainer { return c.trainer }

// Close releases the devices and the compiled programs.
func (c *compiled) Close() error {
	err := c.predict.Close()
	if c.evalPass != nil {
		err = errors.Join(err, c.evalPass.Close())
	}
	return errors.Join(err, c.trainer.Close())
}
