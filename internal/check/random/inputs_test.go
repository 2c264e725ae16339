package random

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

var spread = []galley.Strategy{{}, {DP: 2}, {Micro: 3}, {DP: 2, Micro: 2, Zero: 3}, {PP: 2, Micro: 2}}

// TestCaptured: a loss may use tensors that are neither parameters nor of the batch: weights of classes, a
// teacher.
func TestCaptured(t *testing.T) {
	build := func(s op.Scope) (Model, error) {
		m, err := classifier(func(_, z, y *op.Tensor) *op.Tensor {
			classes := s.(*cpu.Session).Tensor(wave(3, 4))
			teacher := s.(*cpu.Session).Tensor(wave(4, 7, 4))
			return op.Add(op.Mean(op.Mul(z, classes)), op.Mean(op.Square(op.Sub(z, teacher))))
		})(s)
		return m, err
	}
	sameAsOne(t, build, [][]array.Array{{wave(1, 7, 5), labels(4, 3, 7)}, {wave(2, 7, 5), labels(4, 3, 7)}},
		spread...)
}

// TestScalarInBatch: a scalar of the batch is the same for all its rows.
func TestScalarInBatch(t *testing.T) {
	build := oneWeight(4, func(w *nn.Param, b []*op.Tensor) *op.Tensor {
		return op.Mean(op.Square(op.Mul(op.MatMul(b[1], w.Value), b[0])))
	})
	sameAsOne(t, build, [][]array.Array{{array.Scalar(0.5), wave(1, 6, 4)}, {array.Scalar(2.0), wave(2, 6, 4)}},
		spread[:4]...)
}

// TestFrozen: parameters that are used and not given to the trainer stay as they are.
func TestFrozen(t *testing.T) {
	build := func(s op.Scope) (Model, error) {
		m, err := classifier(func(_, z, y *op.Tensor) *op.Tensor { return meanEntropy(z, y) })(s)
		m.Params = m.Params[2:]
		return m, err
	}
	sameAsOne(t, build, [][]array.Array{{wave(1, 7, 5), labels(4, 3, 7)}, {wave(2, 7, 5), labels(4, 3, 7)}},
		galley.Strategy{}, galley.Strategy{DP: 2}, galley.Strategy{DP: 3, Zero: 1, Micro: 2})
}

// TestMixedPrecisionFloats: a batch of floats trains with mixed precision, close to what it does without.
func TestMixedPrecisionFloats(t *testing.T) {
	build := oneWeight(4, func(w *nn.Param, b []*op.Tensor) *op.Tensor {
		return op.Mean(op.Square(op.MatMul(b[0],
			w.Value)))
	})
	batches := [][]array.Array{{wave(1, 6, 4)}, {wave(2, 6, 4)}}
	want, err := Train(build, nil, batches)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []galley.Strategy{{AMP: "bf16"}, {AMP: "bf16", DP: 2, Micro: 2}, {AMP: "f16", Micro: 2}} {
		got, err := Train(build, &s, batches)
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		for i, x := range got.Losses {
			if math.Abs(x-want.Losses[i]) > 0.03 {
				t.Errorf("%v: losses are %v, want %v", s, got.Losses, want.Losses)
			}
		}
	}
}

// TestMixedPrecisionCaptured: what the loss captures, classes' weights or frozen parameters, is taken in the
// precision in which layers compute.
func TestMixedPrecisionCaptured(t *testing.T) {
	build := func(s op.Scope) (Model, error) {
		m, err := classifier(func(_, z, y *op.Tensor) *op.Tensor {
			return meanEntropy(op.Mul(z, s.(*cpu.Session).Tensor(wave(3, 4))), y)
		})(s)
		m.Params = m.Params[2:]
		return m, err
	}
	batches := [][]array.Array{{wave(1, 7, 5), labels(4, 3, 7)}, {wave(2, 7, 5), labels(4, 3, 7)}}
	want, err := Train(build, nil, batches)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []galley.Strategy{{AMP: "bf16"}, {AMP: "bf16", DP: 2, Micro: 2}, {AMP: "f16", Micro: 2}} {
		got, err := Train(build, &s, batches)
		if err == nil {
			err = got.Compare(want, 0.03)
		}
		if err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}
