package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitKernels: a block's norms go with the sums beside them, its gate reads the product that holds it,
// and the loss goes with its gradient where that is known before it: on CUDA and in 16 bits alone.
func TestEmitKernels(t *testing.T) {
	norms := map[string]int{"add_rms_norm": 1, "rms_norm_grad": 1, "swiglu": 1}
	for _, c := range []struct {
		name    string
		dtype   array.DType
		target  hlo.Target
		square  bool // of the loss, whose gradient then needs it
		kernels map[string]int
	}{
		{"cuda", array.BF16, hlo.CUDA, false, map[string]int{"cross_entropy": 1}},
		{"f16", array.F16, hlo.CUDA, false, map[string]int{"cross_entropy": 1}},
		{"apart", array.BF16, hlo.CUDA, true, map[string]int{"log_sum_exp": 1, "softmax_grad": 1}},
		{"f32", array.F32, hlo.CUDA, false, nil},
		{"any", array.BF16, hlo.Any, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := kernelProgram(t, c.dtype, c.square)
			text := checkProgram(t, f, randoms(f.Params()), hlo.Config{Target: c.target})
			for _, k := range []string{"add_rms_norm", "rms_norm_grad", "swiglu", "log_sum_exp", "softmax_grad",
				"cross_entropy"} {
				want := c.kernels[k]
				if c.kernels != nil {
					want += norms[k]
				}
				if got := strings.Count(text, `name = "`+k+`"`); got != want {
					t.Errorf("%d calls of %s, want %d", got, k, want)
				}
			}
		})
	}
}

// kernelProgram returns a block of a model and its loss, the mean over labels that count, with gradients.
func kernelProgram(t *testing.T, d array.DType, square bool) *ir.Func {
	b := ir.NewBuilder("block")
	x := b.Param("x", op.Type{DType: d, Shape: array.Shape{2, 5, 12}})
	y := b.Param("y", op.Type{DType: d, Shape: array.Shape{2, 5, 12}})
	w := b.Param("w", op.Type{DType: d, Shape: array.Shape{12, 24}})
	gamma := b.Param("gamma", op.Type{DType: array.F32, Shape: array.Shape{12}})
	labels := op.Full(b, array.I32, array.Shape{2, 5}, 3)
	sum := op.Mark(op.Add(x, y), "mid")
	parts := op.Chunk(op.MatMul(op.RMSNorm(sum, gamma, 1e-5), w), -1, 2)
	out := op.Add(sum, op.SwiGLU(parts[0], parts[1]))
	loss := op.CrossEntropy(out, labels, op.CrossEntropyConfig{})
	last := loss
	if square {
		last = op.Square(loss)
	}
	f, err := b.Build(append(op.Grad([]*op.Tensor{last}, nil, []*op.Tensor{x, w, gamma}), op.Exp(loss))...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEmitTwoLosses: where values depend on two losses, one of them goes with its gradient and none waits for
// another.
func TestEmitTwoLosses(t *testing.T) {
	for name, of := range map[string]func(a, b *op.Tensor) *op.Tensor{
		"sum":     func(a, b *op.Tensor) *op.Tensor { return op.Add(a, op.MulScalar(b, 0.3)) },
		"product": op.Mul,
		"only":    func(a, b *op.Tensor) *op.Tensor { return op.Mul(op.StopGradient(a), b) },
	} {
		t.Run(name, func(t *testing.T) {
			b := ir.NewBuilder("heads")
			x := b.Param("x", op.Type{DType: array.BF16, Shape: array.Shape{5, 12}})
			v := b.Param("v", op.Type{DType: array.BF16, Shape: array.Shape{12, 12}})
			w := b.Param("w", op.Type{DType: array.BF16, Shape: array.Shape{12, 12}})
			labels := op.Full(b, array.I32, array.Shape{5}, 3)
			loss := func(w *op.Tensor) *op.Tensor {
				return op.CrossEntropy(op.MatMul(x, w), labels, op.CrossEntropyConfig{})
			}
			both := of(loss(v), loss(w))
			f, err := b.Build(append(op.Grad([]*op.Tensor{both}, nil, []*op.Tensor{x, v, w}), op.Exp(both))...)
			if err != nil {
				t.Fatal(err)
			}
			checkProgram(t, f, randoms(f.Params()), hlo.Config{Target: hlo.CUDA})
		})
	}
}
