package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
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

// evaluation is a model's loss and metrics, summed over batches.
type evaluation struct {
	forward *Forward
	metrics []Metric
	sums    []float64
}

func newEvaluation(t *Trainer, model Model, loss Loss, metrics []Metric) *evaluation {
	return &evaluation{metrics: metrics, forward: t.NewForward(func(batch []*Tensor) []*Tensor {
		n := inputsOf(model, len(batch))
		params := nn.Values(model.Params())
		var outputs []*Tensor
		var l *Tensor
		if loss != nil || len(metrics) > 0 {
			outputs = model.Forward(batch[:n]...)
		}
		if loss != nil {
			l = loss(outputs, batch[n:])
		} else {
			l = lossOfModel(model, nil)(batch)
		}
		if l == nil || l.Err() != nil || len(l.Shape()) > 0 {
			return []*Tensor{executor.CheckedLoss(l, params)}
		}
		list := executor.LossForms(l, params, rowCount(batch))[:2]
		for _, m := range metrics {
			s, c := m.Compute(outputs, batch[n:])
			list = append(list, s, c)
		}
		return list
	})}
}

// rowCount is how many rows a batch has; one of scalars is a row.
func rowCount(batch []*Tensor) int {
	for _, x := range batch {
		if len(x.Shape()) > 0 {
			return x.Dim(0)
		}
	}
	return 1
}

// Evaluator is the mean of a trainer's loss over batches, computed where training keeps the parameters.
type Evaluator struct {
	t *Trainer
	e evaluation
}

// NewEvaluator makes an evaluator that has seen no batch. Close gives back what it holds.
func (t *Trainer) NewEvaluator() *Evaluator {
	return &Evaluator{t, evaluation{forward: t.NewForward(func(batch []*Tensor) []*Tensor {
		params := nn.Values(t.c.Params)
		l := t.c.Loss(batch)
		if l == nil || l.Err() != nil || len(l.Shape()) > 0 {
			return []*Tensor{executor.CheckedLoss(l, params)}
		}
		return executor.LossForms(l, params, rowCount(batch))[:2]
	})}}
}

// Mean is the loss over the batches that next gives, until it gives none.
func (v *Evaluator) Mean(ctx context.Context, next func(i int) []array.Array) (float64, error) {
	v.e.sums = nil
	for i := 0; ; i++ {
		batch := next(i)
		switch {
		case batch == nil && i == 0:
			return 0, fmt.Errorf("evaluate: no batches")
		case batch == nil:
			return v.e.sums[0] / v.e.sums[1], nil
		}
		if err := v.e.add(ctx, batch); err != nil {
			return 0, fmt.Errorf("evaluate: batch %d: %w", i, err)
		}
	}
}

// Over is the loss over the first batches of a loader; 0 takes all of an epoch.
func (v *Evaluator) Over(ctx context.Context, l Loader, batches int) (Evaluation, error) {
	return v.e.over(ctx, l, batches, v.t.Steps())
}

// Close gives back what the evaluator holds on a backend.
func (v *Evaluator) Close() error { return v.e.forward.Close() }

// add evaluates one more batch.
func (e *evaluation) add(ctx context.Context, batch []array.Array) (err error) {
	defer fault.Recover("evaluation", &err)
	sums, err := e.forward.sums(ctx, batch)
	if err != nil {
		return err
	}
	if e.sums == nil {
		e.sums = make([]float64, len(sums))
	}
	for i, x := range sums {
		e.sums[i] += x
	}
	return nil
}

// over evaluates the first batches of a loader; 0 takes all of an epoch.
func (e *evaluation) over(ctx context.Context, l Loader, batches, step int) (Evaluation, error) {
	n, err := fit.Count("evaluate", l, batches)
	if err != nil {
		return Evaluation{}, err
	}
	e.sums = nil
	for i := range n {
		b, err := l.Batch(i)
		if err == nil {
			err = e.add(ctx, b)
		}
		if err != nil {
			return Evaluation{}, fmt.Errorf("evaluate: batch %d: %w", i, err)
		}
	}
	return e.result(step), nil
}

// batch is the loss of one batch.
func (e *evaluation) batch(ctx context.Context, batch []array.Array) (float64, error) {
	e.sums = nil
	if err := e.add(ctx, batch); err != nil {
		return 0, err
	}
	return e.sums[0] / e.sums[1], nil
}

// Evaluation is how good a model is on some batches: its loss, and its metrics by name.
type Evaluation = fit.Evaluation

// result is the quotients of all sums so far.
func (e *evaluation) result(step int) Evaluation {
	out := Evaluation{Step: step, Loss: e.sums[0] / e.sums[1]}
	for i, m := range e.metrics {
		x := e.sums[2+2*i] / e.sums[3+2*i]
		if m.Finish != nil {
			x = m.Finish(x)
		}
		out.Values = append(out.Values, fit.MetricValue{Name: m.Name, Value: x})
	}
	return out
}
