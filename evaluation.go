package galley

import (
	"context"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Metric is a number that tells how good a model is: the quotient of two sums over all batches. It is
// computed where the model is, so that only two numbers leave the devices.
type Metric struct {
	Name string
	// Compute is a batch's share: a sum, and what it is divided by, both scalars.
	Compute func(outputs, labels []*Tensor) (sum, count *Tensor)
	// Finish, where set, is applied to the quotient at the end.
	Finish func(x float64) float64
}

// Accuracy is the share of labels that the first output, as logits, rates highest; a label below zero does
// not count.
func Accuracy() Metric {
	return Metric{Name: "accuracy", Compute: func(outputs, labels []*Tensor) (*Tensor, *Tensor) {
		if bad := unpaired("accuracy", outputs, labels); bad != nil {
			return bad, bad
		}
		logits := outputs[0]
		best, label, count := op.ArgMax(logits, -1), labels[0], logits.DType().Compute()
		right := op.Cast(op.Equal(op.Cast(best, label.DType()), label), count)
		counts := op.Cast(op.GreaterEqual(label, op.ZerosLike(label)), count)
		return op.Sum(op.Mul(right, counts)), op.Sum(counts)
	}}
}

// newEvaluation is the loss and metrics of a model, and the forward pass that computes them.
func newEvaluation(t *Trainer, model Model, loss Loss, metrics []Metric) (*evaluation.Evaluation, *Forward) {
	var list []evaluation.Metric
	for _, m := range metrics {
		list = append(list, evaluation.Metric(m))
	}
	forward := t.NewForward(func(batch []*Tensor) []*Tensor {
		n := inputsOf(model, len(batch))
		var outputs []*Tensor
		if loss != nil || len(metrics) > 0 {
			outputs = model.Forward(batch[:n]...)
		}
		var l *Tensor
		if loss != nil {
			l = loss(outputs, batch[n:])
		} else {
			l = lossOfModel(model, nil)(batch)
		}
		terms, ok := evaluation.Terms(l, nn.Values(model.Params()), batch)
		for _, m := range metrics {
			if ok {
				s, c := m.Compute(outputs, batch[n:])
				terms = append(terms, s, c)
			}
		}
		return terms
	})
	return evaluation.New(forward.sums, list), forward
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

// Mean is the loss over the batches that next gives, until it gives none.
func (v *Evaluator) Mean(ctx context.Context, next func(i int) []array.Array) (float64, error) {
	return v.eval.Mean(ctx, next)
}

// Over is the loss over the first batches of a loader; 0 takes all of an epoch.
func (v *Evaluator) Over(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return v.eval.Over(ctx, l, batches, v.t.Steps())
}

// Close gives back what the evaluator holds on a backend.
func (v *Evaluator) Close() error { return v.forward.Close() }

// Evaluation is how good a model is on some batches: its loss, and its metrics by name.
type Evaluation = fit.Evaluation
