package random

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestEqualGradients: weights whose gradients are one value are summed each for itself.
func TestEqualGradients(t *testing.T) {
	build := func(s op.Scope) (Model, error) {
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
		a := in.Param("a", array.Shape{3}, nn.Normal(1))
		b := in.Param("b", array.Shape{3}, nn.Normal(1))
		return Model{Params: in.Params(), Loss: func(x []*op.Tensor) *op.Tensor {
			return op.Mean(op.Square(op.Add(op.Add(x[0], a.Value), b.Value)))
		}}, in.Err()
	}
	sameAsOne(t, build, [][]array.Array{{wave(1, 6, 3)}, {wave(2, 6, 3)}}, galley.Strategy{},
		galley.Strategy{Micro: 3}, galley.Strategy{DP: 2, Micro: 2}, galley.Strategy{DP: 2, Zero: 3})
}

// TestCapacityMicro: which tokens an expert has no room for depends on all of a batch, so micro-batches are
// refused with the line, and numbers never change in silence.
func TestCapacityMicro(t *testing.T) {
	c := models.Config{Family: "mixtral", Vocab: 23, Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4,
		KVHeads:   4,
		Positions: 32, InitStd: 0.3, Experts: 4, ExpertsPerToken: 2}
	build := func(scope op.Scope) (Model, error) {
		m, err := models.New(c, nn.Config{Scope: scope, DType: array.F64, Seed: 1})
		if err != nil {
			return Model{}, err
		}
		params := m.Params()
		if m, err = models.Arrange(m, models.Layout{Experts: 2, Capacity: 0.75}); err != nil {
			return Model{}, err
		}
		return Model{Params: params, Loss: func(b []*op.Tensor) *op.Tensor {
			return m.Loss(op.Narrow(b[0], 1, 0, 12), op.Narrow(b[0], 1, 1, 13))
		}}, nil
	}
	batches := [][]array.Array{{labels(23, 0, 4, 13)}}
	_, err := Train(build, &galley.Strategy{DP: 2, EP: 2, Micro: 2}, batches)
	if err == nil || !strings.Contains(err.Error(), "expert_limit: it needs all rows together") ||
		!strings.Contains(err.Error(), "want micro=1") {
		t.Errorf("got %v", err)
	}
	sameAsOne(t, build, batches, galley.Strategy{DP: 2, EP: 2})
}
