package evaluation

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/op"
)

// Terms returns what a forward pass has to compute of a batch: the loss as a sum and its count.
func Terms(loss *op.Tensor, params, batch []*op.Tensor) (terms []*op.Tensor, ok bool) {
	if loss == nil || loss.Err() != nil || len(loss.Shape()) > 0 {
		return []*op.Tensor{executor.CheckedLoss(loss, params)}, false
	}
	return executor.LossForms(loss, params, rowCount(batch))[:2], true
}

// rowCount returns how many rows a batch has; one of scalars is a row.
func rowCount(batch []*op.Tensor) int {
	for _, x := range batch {
		if len(x.Shape()) > 0 {
			return x.Dim(0)
		}
	}
	return 1
}

// Sums is what a forward pass of the terms gives for a batch, summed over micro-batches.
type Sums func(ctx context.Context, batch []array.Array) ([]float64, error)

// Evaluation is a loss and metrics, summed over batches.
type Evaluation struct {
	of      Sums
	metrics []fit.Metric
	sums    []float64
}

// New returns an evaluation that has seen no batch: of computes the terms of the loss, then those of each
// metric.
func New(of Sums, metrics []fit.Metric) *Evaluation { return &Evaluation{of: of, metrics: metrics} }

// add evaluates one more batch.
func (e *Evaluation) add(ctx context.Context, batch []array.Array) error {
	sums, err := e.of(ctx, batch)
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

// Batch returns the loss of one batch.
func (e *Evaluation) Batch(ctx context.Context, batch []array.Array) (float64, error) {
	e.sums = nil
	if err := e.add(ctx, batch); err != nil {
		return 0, err
	}
	return e.sums[0] / e.sums[1], nil
}

// Mean returns the loss over the batches that next gives, until it gives none.
func (e *Evaluation) Mean(ctx context.Context, next func(i int) []array.Array) (float64, error) {
	e.sums = nil
	for i := 0; ; i++ {
		batch := next(i)
		switch {
		case batch == nil && i == 0:
			return 0, fmt.Errorf("evaluate: no batches")
		case batch == nil:
			return e.sums[0] / e.sums[1], nil
		}
		if err := e.add(ctx, batch); err != nil {
			return 0, fmt.Errorf("evaluate: batch %d: %w", i, err)
		}
	}
}

// Over evaluates the first batches of a loader after so many steps; 0 batches takes all of an epoch.
func (e *Evaluation) Over(ctx context.Context, l fit.Loader, batches, step int) (fit.Evaluation, error) {
	n, err := fit.Count("evaluate", l, batches)
	if err != nil {
		return fit.Evaluation{}, err
	}
	e.sums = nil
	for i := range n {
		b, err := l.Batch(i)
		if err == nil {
			err = e.add(ctx, b)
		}
		if err != nil {
			return fit.Evaluation{}, fmt.Errorf("evaluate: batch %d: %w", i, err)
		}
	}
	return e.result(step), nil
}

// result returns the quotients of all sums so far.
func (e *Evaluation) result(step int) fit.Evaluation {
	out := fit.Evaluation{Step: step, Loss: e.sums[0] / e.sums[1]}
	for i, m := range e.metrics {
		x := e.sums[2+2*i] / e.sums[3+2*i]
		if m.Finish != nil {
			x = m.Finish(x)
		}
		out.Values = append(out.Values, fit.MetricValue{Name: m.Name, Value: x})
	}
	return out
}
