package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

// Phase is what a DistModel does with a batch.
type Phase uint8

// Training changes the parameters and tells the loss; evaluating only tells the loss; predicting tells what
// the model answers.
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

// DistModel is a model compiled for the devices of a strategy, one program for each phase.
type DistModel struct {
	model   Model
	plan    *ModelPlan // nil where none was searched
	trainer *Trainer
	phase   Phase
	trains  bool
	eval    *evaluation.Evaluation
	predict *Forward
}

// ToStatic compiles a model, written as for one device, for the devices of a strategy; nil is one device. A
// model whose parameters or activations are on meshes runs there: its parameters, their gradients and what the
// optimizer keeps rest as they are annotated, meshes that share no device are stages of a pipeline in the order
// in which data comes to them, and the strategy says the schedule and the number of micro-batches. The loader's
// first batch tells the types: nothing is taken from it. A nil loss is the model's own, if it is a
// LossModel; without any it only predicts, and without an optimizer it does not train. Layers that
// Parallelize planned have the planned layout. A strategy with Auto is searched for the model first: Plan says
// what was found. Close ends the devices.
func ToStatic(model Model, loader Loader, loss Loss, optimizer optim.Optimizer, s *Strategy) (*DistModel,
	error) {
	var plan *ModelPlan
	if s != nil && s.Auto > 0 {
		batch, err := firstBatch(loader)
		if err != nil {
			return nil, err
		}
		if model, plan, err = found(model, PlanConfig{Loss: loss, Optimizer: optimizer, Batch: executor.TypesOf(batch),
			Strategy: *s}); err != nil {
			return nil, fmt.Errorf("to static: %w", err)
		}
		s = nil
	}
	model, c, err := modelConfig("to static", model, loss, optimizer, s)
	if err != nil {
		return nil, err
	}
	if l, ok := loader.(*dtensor.Loader); ok {
		if c.loaded, err = l.Layouts(); err != nil {
			return nil, fmt.Errorf("to static: %w", err)
		}
	}
	_, own := ownLoss(model)
	own = own || loss != nil
	d := &DistModel{model: model, plan: plan, trains: own && c.Optimizer != nil}
	if d.trainer, err = NewTrainer(c); err != nil {
		return nil, err
	}
	d.predict = d.trainer.NewForward(func(batch []*Tensor) []*Tensor { return model.Forward(batch...) })
	if own {
		d.eval, _ = newEvaluation(d.trainer, model, loss, nil)
	}
	d.phase = Predicting
	if d.trains {
		d.phase = Training
	} else if own {
		d.phase = Evaluating
	}
	if loader == nil {
		return d, nil
	}
	if err := d.compile(loader); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// compile plans the first phase for the loader's batches, so that mistakes are told before anything runs.
func (d *DistModel) compile(loader Loader) error {
	batch, err := firstBatch(loader)
	if err != nil {
		return err
	}
	if !d.trains {
		return nil
	}
	return d.trainer.exec.Start(executor.TypesOf(batch)...)
}

// firstBatch is the batch that tells types.
func firstBatch(loader Loader) ([]array.Array, error) {
	if loader == nil {
		return nil, fmt.Errorf("to static: a strategy with auto is searched for batches of known types: want a loader")
	}
	batch, err := loader.Batch(0)
	if err != nil {
		return nil, fmt.Errorf("to static: first batch: %w", err)
	}
	return batch, nil
}

// modelConfig is a model as its strategy trains it, and a trainer's config for it.
func modelConfig(who string, model Model, loss Loss, optimizer optim.Optimizer, s *Strategy) (Model,
	TrainerConfig, error) {
	device, err := deviceOf(who, model)
	if err != nil {
		return nil, TrainerConfig{}, err
	}
	c := TrainerConfig{Device: device, Params: model.Params(), Strategy: s, Loss: noLoss, where: ir.Caller()}
	if p, ok := model.(*Parallel); ok {
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
	model = under(model, c.Strategy)
	if _, own := ownLoss(model); own || loss != nil {
		c.Loss = lossOfModel(model, loss)
	}
	return model, c, nil
}

// noLoss stands for the loss of a model that does not train.
func noLoss([]*Tensor) *Tensor { return nil }

// Train, Eval and Predict say what Run does from now on.
func (d *DistModel) Train() error {
	if !d.trains {
		return fmt.Errorf("static model: it cannot train: give ToStatic a loss and an optimizer")
	}
	d.phase = Training
	return nil
}

// Eval lets Run tell the loss and change nothing.
func (d *DistModel) Eval() error {
	if d.eval == nil {
		return fmt.Errorf("static model: it cannot be evaluated: give ToStatic a loss")
	}
	d.phase = Evaluating
	return nil
}

// Predict lets Run tell what the model answers; batches have inputs only.
func (d *DistModel) Predict() { d.phase = Predicting }

// Phase is what Run does.
func (d *DistModel) Phase() Phase { return d.phase }

// Result is what Run tells of a batch: the loss, or what the model answers where it predicts.
type Result struct {
	Loss float64
	// Metrics is of a training step, Outputs of a prediction.
	Metrics Metrics
	Outputs []array.Array
}

// Run does with one batch what the phase says.
func (d *DistModel) Run(ctx context.Context, batch ...array.Array) (r Result, err error) {
	if err := checkBatch(ctx, batch); err != nil {
		return r, err
	}
	switch d.phase {
	case Training:
		r.Metrics, err = d.trainer.Step(batch...)
		r.Loss = r.Metrics.Loss
	case Evaluating:
		r.Loss, err = d.eval.Batch(ctx, batch)
	case Predicting:
		r.Outputs, err = d.predict.Run(ctx, batch...)
	}
	return r, err
}

// Params is the model's parameters, with the values that training has given them.
func (d *DistModel) Params() ([]*nn.Param, error) {
	return d.model.Params(), d.trainer.Sync(d.trainer.c.Device.NewSession())
}

// Plan is what was found for a strategy with Auto; nil for any other.
func (d *DistModel) Plan() *ModelPlan { return d.plan }

// Trainer is what trains the model.
func (d *DistModel) Trainer() *Trainer { return d.trainer }

// Close ends the devices.
func (d *DistModel) Close() error { return d.trainer.Close() }
