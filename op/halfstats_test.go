package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
)

// spreadOf returns normal numbers as 16-bit floats and as float64 with the same values.
func spreadOf(s *cpu.Session, seed uint64, dtype array.DType, std float64, shape ...int) (half,
	wide *op.Tensor) {
	rng := rand.New(rand.NewPCG(seed, 12))
	xs := make([]float32, array.Shape(shape).Len())
	for i := range xs {
		xs[i] = float32(std * rng.NormFloat64())
	}
	half = op.Cast(s.Tensor(array.FromSlice(xs, shape...)), dtype).Detach().Track()
	return half, op.Cast(half, array.F64).Detach().Track()
}

// TestStatisticsOfHalves: what is computed from 16-bit floats is the result of their values, rounded once,
// also where squares overflow or differences from the mean are small; so is its gradient.
func TestStatisticsOfHalves(t *testing.T) {
	s := shapeSession(t)
	batchNorm := func(x *op.Tensor) *op.Tensor { y, _, _ := op.BatchNorm(x, nil, nil, 1e-8); return y }
	target := func(x *op.Tensor) *op.Tensor { return op.Const(x, 3) }
	for name, f := range map[string]func(x *op.Tensor) *op.Tensor{
		"group_norm":    func(x *op.Tensor) *op.Tensor { return op.GroupNorm(x, 2, nil, nil, 1e-8) },
		"instance_norm": func(x *op.Tensor) *op.Tensor { return op.InstanceNorm(x, nil, nil, 1e-8) },
		"batch_norm":    batchNorm,
		"norm":          func(x *op.Tensor) *op.Tensor { return op.Norm(x, 2, 2) },
		"norm 3":        func(x *op.Tensor) *op.Tensor { return op.Norm(x, 3, 2) },
		"mean square":   func(x *op.Tensor) *op.Tensor { return op.MSELoss(x, target(x), "") },
		"inference": func(x *op.Tensor) *op.Tensor {
			wide := op.Cast(x, x.DType().Compute())
			return op.BatchNormInference(x, op.StopGradient(op.Mean(wide, 0, 2)), op.StopGradient(op.Var(wide, 0, 2)),
				nil, nil, 1e-8)
		},
	} {
		for _, dtype := range []array.DType{array.F16, array.BF16} {
			for _, std := range []float64{1e-3, 1, 200} {
				t.Run(fmt.Sprintf("%s/%v/%v", name, dtype, std), func(t *testing.T) {
					half, wide := spreadOf(s, 1, dtype, std, 4, 6, 50)
					y, want := f(half), f(wide)
					alike(t, "result", y, want, 0.01)
					weights, _ := spreadOf(s, 2, array.F64, 1, want.Shape()...)
					d := op.Grad([]*op.Tensor{y}, []*op.Tensor{op.Cast(weights, dtype)}, []*op.Tensor{half})[0]
					dwant := op.Grad([]*op.Tensor{want}, []*op.Tensor{op.Cast(op.Cast(weights, dtype), array.F64)},
						[]*op.Tensor{wide})[0]
					alike(t, "gradient", d, dwant, 0.03)
				})
			}
		}
	}
}

// alike compares two tensors in norm.
func alike(t *testing.T, what string, got, want *op.Tensor, tolerance float64) {
	t.Helper()
	a, b := read(t, got), read(t, want)
	var diff, norm float64
	for i := range a.Len() {
		diff += (a.At(i) - b.At(i)) * (a.At(i) - b.At(i))
		norm += b.At(i) * b.At(i)
	}
	if e := math.Sqrt(diff / norm); !(e <= tolerance) {
		t.Errorf("%s: relative error %v, want ≤ %v: got %v, want %v", what, e, tolerance, a, b)
	}
}
