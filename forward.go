package galley

import (
	"context"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
)

// Forward is a function of the trainer's parameters that runs without gradients on the devices that hold
// them.
type Forward struct {
	pass executor.Forward
	t    *Trainer
}

// NewForward returns a forward pass of f, which computes with the trainer's parameters. It is compiled for
// each new batch shape.
func (t *Trainer) NewForward(f func(batch []*Tensor) []*Tensor) *Forward {
	return &Forward{t.exec.Forward(f), t}
}

// Close releases what the pass holds on a backend.
func (f *Forward) Close() error { return f.pass.Close() }

// Run returns f of a batch. Under a strategy the batch is split into micro-batches, so results must have the
// batch as their first dim.
func (f *Forward) Run(ctx context.Context, batch ...array.Array) (out []array.Array, err error) {
	defer fault.Recover("forward pass", &err)
	parts, rows, err := f.parts(ctx, batch)
	if err != nil {
		return nil, err
	}
	return executor.Stack(parts, rows)
}

// sums returns f of a batch if its results are scalars, summed over micro-batches.
func (f *Forward) sums(ctx context.Context, batch []array.Array) (sums []float64, err error) {
	defer fault.Recover("evaluation", &err)
	parts, _, err := f.parts(ctx, batch)
	if err != nil {
		return nil, err
	}
	return executor.Sums(parts), nil
}

// parts returns f of every micro-batch and the number of rows of each.
func (f *Forward) parts(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	if err := executor.CheckBatch(ctx, batch); err != nil {
		return nil, nil, err
	}
	if err := f.t.trained.Adopt(); err != nil {
		return nil, nil, err
	}
	return f.pass.Run(ctx, batch)
}
