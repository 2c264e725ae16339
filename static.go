package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/optim"
)

// DistModel is a model compiled for the devices of a strategy, one program for each phase.
type DistModel struct {
	compiled
	phase  Phase
	trains bool
}

// ToStatic compiles a model, written as for one device, for the devices of a strategy; nil is one device. A
// model whose parameters or activations are on meshes runs there: its parameters, their gradients and what
// the optimizer keeps rest as they are annotated, meshes that share no device are stages of a pipeline in the
// order in which data comes to them, and the strategy says the schedule and the number of micro-batches. The
// loader's first batch tells the types: nothing is taken from it. A nil loss is the model's own, if it is a
// LossModel; without any it only predicts, and without an optimizer it does not train. Layers that
// Parallelize planned have the planned layout. A strategy with Auto is searched for the model first: Plan
// says what was found. Close ends the devices.
func ToStatic(m Model, loader Loader, loss Loss, optimizer optim.Optimizer, s *Strategy) (*DistModel, error) {
	var plan *ModelPlan
	if s != nil && s.Auto > 0 {
		batch, err := firstBatch(loader)
		if err != nil {
			return nil, err
		}
		if m, plan, err = found(m, PlanConfig{Loss: loss, Optimizer: optimizer, Batch: executor.TypesOf(batch),
			Strategy: *s}); err != nil {
			return nil, fmt.Errorf("to static: %w", err)
		}
		s = nil
	}
	m, c, err := modelConfig("to static", m, loss, optimizer, s)
	if err != nil {
		return nil, err
	}
	if l, ok := loader.(*dtensor.Loader); ok {
		if c.loaded, err = l.Layouts(); err != nil {
			return nil, fmt.Errorf("to static: %w", err)
		}
	}
	d := &DistModel{phase: Predicting}
	if d.compiled, err = newCompiled(m, c, loss, nil); err != nil {
		return nil, err
	}
	d.plan, d.trains = plan, d.eval != nil && c.Optimizer != nil
	if d.trains {
		d.phase = Training
	} else if d.eval != nil {
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

// firstBatch returns the batch that tells types.
func firstBatch(loader Loader) ([]array.Array, error) {
	if loader == nil {
		return nil, fmt.Errorf(
			"to static: a strategy with auto is searched for batches of known types: want a loader",
		)
	}
	batch, err := loader.Batch(0)
	if err != nil {
		return nil, fmt.Errorf("to static: first batch: %w", err)
	}
	return batch, nil
}

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

// Phase returns what Run does.
func (d *DistModel) Phase() Phase { return d.phase }

// Run does with one batch what the phase says.
func (d *DistModel) Run(ctx context.Context, batch ...array.Array) (Result, error) {
	return d.run(ctx, d.phase, batch)
}
