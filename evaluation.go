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

// Evaluator is the mean of a trainer's loss over batches, computed where training keeps the parameters.
type Evaluator struct {
	t       *Trainer
	eval    *evaluation.Evaluation
	forward *Forward
}

// NewEvaluator makes an evaluator that has seen no batch. Close gives back what it holds.
func (t *Trainer) NewEvaluator() *Evaluator {
	forward := t.NewForward(func(batch []*Tensor) []*Tensor {
		terms, _ := evaluation.Terms(t.c.Loss(batch), nn.Values(t.c.Params), batch)
		return terms
	})
	return &Evaluator{t, evaluation.New(forward.sums, nil), forward}
}

// Mean returns the loss over the batches that next gives, until it gives none.
func (v *Evaluator) Mean(ctx context.Context, next func(i int) []array.Array) (float64, error) {
	return v.eval.Mean(ctx, next)
}

// Over returns the loss over the first batches of a loader; 0 takes all of an epoch.
func (v *Evaluator) Over(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return v.eval.Over(ctx, l, batches, v.t.Steps())
}

// Close gives back what the evaluator holds on a backend.
func (v *Evaluator) Close() error { return v.forward.Close() }

// Evaluation is how good a model is on some batches: its loss, and its metrics by name.
type Evaluation = fit.Evaluation
