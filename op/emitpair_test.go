package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitPairs: a block's norms go with the sums beside them, and the loss's sums and gradient are a kernel each, on CUDA and in 16 bits alone.
func TestEmitPairs(t *testing.T) {
	for _, c := range []struct {
		name    string
		dtype   array.DType
		target  hlo.Target
		kernels map[string]int
	}{
		{"cuda", array.BF16, hlo.CUDA, map[string]int{"add_rms_norm": 1, "rms_norm_grad": 1, "log_sum_exp": 1, "softmax_grad": 1}},
		{"f16", array.F16, hlo.CUDA, map[string]int{"add_rms_norm": 1, "rms_norm_grad": 1, "log_sum_exp": 1, "softmax_grad": 1}},
		{"f32", array.F32, hlo.CUDA, nil},
		{"any", array.BF16, hlo.Any, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ir.NewBuilder("block")
			x := b.Param("x", op.Type{DType: c.dtype, Shape: array.Shape{2, 5, 12}})
			y := b.Param("y", op.Type{DType: c.dtype, Shape: array.Shape{2, 5, 12}})
			gamma := b.Param("gamma", op.Type{DType: array.F32, Shape: array.Shape{12}})
			labels := op.Full(b, array.I32, array.Shape{2, 5}, 3)
			sum := op.Mark(op.Add(x, y), "mid")
			out := op.Add(sum, op.Exp(op.RMSNorm(sum, gamma, 1e-5)))
			loss := op.CrossEntropy(out, labels, op.CrossEntropyConfig{})
			f, err := b.Build(append(op.Grad([]*op.Tensor{loss}, nil, []*op.Tensor{x, gamma}), loss)...)
			if err != nil {
				t.Fatal(err)
			}
			text := checkProgram(t, f, randoms(f.Params()), hlo.Config{Target: c.target})
			for _, k := range []string{"add_rms_norm", "rms_norm_grad", "log_sum_exp", "softmax_grad"} {
				if got := strings.Count(text, `name = "`+k+`"`); got != c.kernels[k] {
					t.Errorf("%d calls of %s, want %d", got, k, c.kernels[k])
				}
			}
		})
	}
}
