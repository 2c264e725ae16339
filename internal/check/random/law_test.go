package random

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// wave returns an array of numbers between -1 and 1.
func wave(seed int, shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range a.Len() {
		a.Set(i, math.Sin(float64(seed*31+i*7)))
	}
	return a
}

// labels returns classes below n; some do not count.
func labels(n, ignored int, shape ...int) array.Array {
	a := array.New(array.I32, shape...)
	for i := range a.Len() {
		a.Set(i, float64(i*5%n))
		if ignored > 0 && i%ignored == 0 {
			a.Set(i, -100)
		}
	}
	return a
}

// sameAsOne trains under strategies and on one device.
func sameAsOne(t *testing.T, build Build, batches [][]array.Array, strategies ...galley.Strategy) {
	t.Helper()
	want, err := Train(build, nil, batches)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range strategies {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			got, err := Train(build, &s, batches)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Compare(want, 1e-9); err != nil {
				t.Error(err)
			}
		})
	}
}

// oneWeight returns a model of a square matrix.
func oneWeight(n int, loss func(w *nn.Param, batch []*op.Tensor) *op.Tensor) Build {
	return func(s op.Scope) (Model, error) {
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
		w := in.Param("w", array.Shape{n, n}, nn.Normal(0.5))
		return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor { return loss(w, b) }}, in.Err()
	}
}

// TestStopGradient: what is stopped stays so under any strategy.
func TestStopGradient(t *testing.T) {
	build := oneWeight(4, func(w *nn.Param, b []*op.Tensor) *op.Tensor {
		return op.Mean(op.Mul(op.MatMul(b[0], w.Value), op.MatMul(b[0], op.StopGradient(w.Value))))
	})
	sameAsOne(t, build, [][]array.Array{{wave(1, 6, 4)}, {wave(2, 6, 4)}}, galley.Strategy{},
		galley.Strategy{DP: 2}, galley.Strategy{Micro: 3}, galley.Strategy{DP: 2, Zero: 3, Recompute: "full"})
}

// language returns a small language model as a Build; its batch is windows of tokens.
func language(c models.Config) Build {
	return func(s op.Scope) (Model, error) {
		m, err := models.New(c, nn.Config{Scope: s, DType: array.F64, Seed: 1})
		if err != nil {
			return Model{}, err
		}
		return Model{Params: m.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return m.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}}, nil
	}
}

// TestOverlapUnused: collectives whose results nobody uses do not write into memory that others have taken.
func TestOverlapUnused(t *testing.T) {
	c := models.Config{Family: "mistral", Vocab: 23, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4,
		KVHeads: 2, Positions: 32, InitStd: 0.3}
	batches := [][]array.Array{{labels(23, 0, 6, 13)}, {labels(21, 0, 6, 13)}}
	sameAsOne(t, language(c), batches, galley.Strategy{DP: 2, Overlap: strategy.On, Recompute: "full"},
		galley.Strategy{DP: 5, Zero: 3, Micro: 6, Overlap: strategy.On},
		galley.Strategy{DP: 2, TP: 2, Sequence: true, Zero: 2, Overlap: strategy.On, Recompute: "selective"})
}
