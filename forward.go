package galley

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
)

// Forward is a function of a trainer's parameters that is run without gradients, on the devices where
// training keeps them.
type Forward struct {
	pass executor.Forward
	t    *Trainer
}

// NewForward makes a forward pass of f, which computes with the trainer's parameters. It is compiled when the
// first batch of each size is run.
func (t *Trainer) NewForward(f func(batch []*Tensor) []*Tensor) *Forward {
	return &Forward{t.exec.Forward(f), t}
}

// Close gives back what the pass holds on a backend.
func (f *Forward) Close() error { return f.pass.Close() }

// Run is f of a batch. Under a strategy the batch is cut into micro-batches, so results must have a row for
// each of the batch's.
func (f *Forward) Run(ctx context.Context, batch ...array.Array) (out []array.Array, err error) {
	defer fault.Recover("forward pass", &err)
	parts, rows, err := f.parts(ctx, batch)
	if err != nil || len(parts) == 1 {
		return first(parts), err
	}
	for i := range parts[0] {
		for m, p := range parts {
			if s := p[i].Shape(); len(s) == 0 || s[0] != rows[m] {
				return nil, fmt.Errorf("forward: result %d of a micro-batch of %d rows has shape %v: want a row for each: reduce it after Run, or set Micro to 1", i, rows[m], s)
			}
		}
		out = append(out, stack(parts, i))
	}
	return out, nil
}

func first(parts [][]array.Array) []array.Array {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// stack puts the rows of result i of all parts together.
func stack(parts [][]array.Array, i int) array.Array {
	n := 0
	for _, p := range parts {
		n += p[i].Shape()[0]
	}
	shape := append(array.Shape{n}, parts[0][i].Shape()[1:]...)
	all := array.New(parts[0][i].DType(), shape...)
	at := 0
	for _, p := range parts {
		at += copy(all.Bytes()[at:], p[i].Bytes())
	}
	return all
}

// sums is f of a batch where its results are numbers: their sums over micro-batches.
func (f *Forward) sums(ctx context.Context, batch []array.Array) ([]float64, error) {
	parts, _, err := f.parts(ctx, batch)
	if err != nil {
		return nil, err
	}
	sums := make([]float64, len(parts[0]))
	for _, p := range parts {
		for i, a := range p {
			sums[i] += a.At(0)
		}
	}
	return sums, nil
}

// parts is f of every micro-batch, and how many rows each has.
func (f *Forward) parts(ctx context.Context, batch []array.Array) ([][]array.Array, []int, error) {
	if err := checkBatch(ctx, batch); err != nil {
		return nil, nil, err
	}
	if err := f.t.adopt(); err != nil {
		return nil, nil, err
	}
	return f.pass.Run(ctx, batch)
}
