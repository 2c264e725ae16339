package galley

import (
	"context"
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// PipelineConfig configures a PipelineLayer.
type PipelineConfig struct {
	Layers []parallel.Desc
	// Init initialises the parameters; its Scope is a session of a device.
	Init nn.Config
	// Loss takes the output of the last layer and a batch's labels.
	Loss Loss
	// Optimizer defaults to AdamW; an *Optimizer brings a schedule.
	Optimizer optim.Optimizer
	// Strategy sets the number of stages and the other degrees; nil uses one device.
	Strategy *Strategy
	// Boundaries has the index of the first layer of every stage but the first; nil splits evenly.
	Boundaries []int
}

// PipelineLayer is a sequential model whose layers are split into pipeline stages.
type PipelineLayer struct {
	*parallel.Pipeline
	trainer *Trainer
	eval    *evaluation.Evaluation
	pass    *Forward // the forward pass of eval
}

// NewPipelineLayer creates the layers and assigns them to the stages of the strategy. Close releases the
// devices.
func NewPipelineLayer(c PipelineConfig) (*PipelineLayer, error) {
	layers, err := parallel.NewPipeline(c.Layers, c.Init)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if c.Loss == nil {
		return nil, fmt.Errorf("pipeline: want a loss, such as galley.CrossEntropy")
	}
	if c.Optimizer == nil {
		c.Optimizer = optim.AdamW{}
	}
	s, err := layers.Cut(c.Strategy, c.Boundaries)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p := &PipelineLayer{Pipeline: layers}
	_, config, err := modelConfig("pipeline", p, c.Loss, c.Optimizer, s)
	if err != nil {
		return nil, err
	}
	if p.trainer, err = NewTrainer(config); err != nil {
		return nil, err
	}
	p.eval, p.pass = newEvaluation(p.trainer, p, c.Loss, nil)
	return p, nil
}

// TrainBatch trains on one batch, an input and its labels, split into micro-batches as the strategy says.
func (p *PipelineLayer) TrainBatch(ctx context.Context, batch ...array.Array) (Metrics, error) {
	if err := executor.CheckBatch(ctx, batch); err != nil {
		return Metrics{}, err
	}
	return p.trainer.Step(batch...)
}

// EvalBatch returns the loss of one batch without changing the parameters.
func (p *PipelineLayer) EvalBatch(ctx context.Context, batch ...array.Array) (float64, error) {
	return p.eval.Batch(ctx, batch)
}

// Trainer returns the underlying trainer.
func (p *PipelineLayer) Trainer() *Trainer { return p.trainer }

// Close releases the devices.
func (p *PipelineLayer) Close() error { return errors.Join(p.pass.Close(), p.trainer.Close()) }
