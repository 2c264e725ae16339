package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/optim"
)

// DistModel is a model compiled for the devices of a strategy, with one program per phase.
type DistModel struct {
	compiled
	phase  Phase
	trains bool
}

// ToStatic compiles a model written for one device for the devices of a strategy; a nil strategy means one
// device.
//
// A model whose parameters or activations are annotated with meshes runs on them: parameters, gradients and
// optimizer state keep the annotated shardings, and meshes that share no device become pipeline stages in the
// order of the data flow. The strategy then only sets the schedule and the number of micro-batches.
//
// The types of batches are those of the loader's first batch, which is not consumed. A nil loss uses that of
// a LossModel; without any loss the DistModel only predicts, and without an optimizer it does not train. A
// plan attached by Parallelize is applied. A strategy with Auto is searched first, and Plan returns the
// result. Close releases the devices.
func ToStatic(m Model, loader Loader, loss Loss, optimizer optim.Optimizer, s *Strategy) (*DistModel, error) {
	var plan *ModelPlan
	if s != nil && s.Auto > 0 {
		batch, err := firstBatch(loader)
		if err != nil {
			return nil, err
		}
		if m, plan, err = searchPlan(m, PlanConfig{Loss: loss, Optimizer: optimizer, Batch: executor.TypesOf(batch),
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

// compile plans the first phase for the loader's batches, so that mistakes are reported before anything runs.
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

// firstBatch returns the batch whose types the programs are compiled for.
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

// Train makes Run train from now on.
func (d *DistModel) Train() error {
	if !d.trains {
		return fmt.Errorf("static model: it cannot train: give ToStatic a loss and an optimizer")
	}
	d.phase = Training
	return nil
}

// Eval makes Run return the loss and change nothing.
func (d *DistModel) Eval() error {
	if d.eval == nil {
		return fmt.Errorf("static model: it cannot be evaluated: give ToStatic a loss")
	}
	d.phase = Evaluating
	return nil
}

// Predict makes Run return the model's outputs; batches then contain only inputs.
func (d *DistModel) Predict() { d.phase = Predicting }

// Phase returns the current phase.
func (d *DistModel) Phase() Phase { return d.phase }

// Run runs one batch in the current phase.
func (d *DistModel) Run(ctx context.Context, batch ...array.Array) (Result, error) {
	return d.run(ctx, d.phase, batch)
}
