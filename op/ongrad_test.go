package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestOnGrad: a hook sees the gradient of its tensor, and may change it.
func TestOnGrad(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(array.Scalar(3.0)).Track()
	var seen float64
	grad := func(f func(dy *op.Tensor) *op.Tensor) float64 {
		y := op.OnGrad(op.Mul(x, x), func(dy *op.Tensor) *op.Tensor {
			a, err := cpu.Read(dy)
			if err != nil {
				t.Fatal(err)
			}
			seen = a.At(0)
			return f(dy)
		})
		a, err := cpu.Read(op.Grad([]*op.Tensor{op.MulScalar(y, 5)}, nil, []*op.Tensor{x})[0])
		if err != nil {
			t.Fatal(err)
		}
		return a.At(0)
	}
	if got := grad(func(*op.Tensor) *op.Tensor { return nil }); got != 30 || seen != 5 {
		t.Errorf("a hook that looks: gradient %v, it saw %v: want 30 and 5", got, seen)
	}
	if got := grad(func(dy *op.Tensor) *op.Tensor { return op.MulScalar(dy, 2) }); got != 60 {
		t.Errorf("a hook that doubles: gradient %v, want 60", got)
	}
	b := ir.NewBuilder("f")
	y := op.OnGrad(b.Param("x", ir.Type{DType: array.F32}), func(dy *op.Tensor) *op.Tensor { return dy })
	if y.Err() == nil || !strings.Contains(y.Err().Error(), "Mode Eager") {
		t.Errorf("in a trace: got %v", y.Err())
	}
}
