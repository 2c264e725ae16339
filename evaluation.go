package galley

import (
	"context"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/model"
	"github.com/galley-ml/galley/nn"
)

// newEvaluation returns the loss and metrics of a model, and the forward pass that computes them.
func newEvaluation(t *Trainer, m Model, loss Loss, metrics []Metric) (*evaluation.Evaluation, *Forward) {
	forward := t.NewForward(model.Terms(m, loss, metrics))
	return evaluation.New(forward.sums, metrics), forward
}

// Evaluator computes the mean loss over batches on the devices that hold the parameters.
type Evaluator struct {
	t       *Trainer
	eval    *evaluation.Evaluation
	forward *Forward
}

// NewEvaluator returns an evaluator of the trainer's loss. Close releases it.
func (t *Trainer) NewEvaluator() *Evaluator {
	forward := t.NewForward(func(batch []*Tensor) []*Tensor {
		terms, _ := evaluation.Terms(t.c.Loss(batch), nn.Values(t.c.Params), batch)
		return terms
	})
	return &Evaluator{t, evaluation.New(forward.sums, nil), forward}
}

// Mean returns the mean loss over the batches that next returns, until it returns nil.
func (v *Evaluator) Mean(ctx context.Context, next func(i int) []array.Array) (float64, error) {
	return v.eval.Mean(ctx, next)
}

// Over returns the loss over the first batches of a loader; 0 means one epoch.
func (v *Evaluator) Over(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return v.eval.Over(ctx, l, batches, v.t.Steps())
}

// Close releases what the evaluator holds on a backend.
func (v *Evaluator) Close() error { return v.forward.Close() }

// Evaluation is the result of an evaluation: the loss, and the metrics by name.
type Evaluation = fit.Evaluation
