package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitFused: attention and its gradient as calls of cuDNN, where there is one, and otherwise not.
func TestEmitFused(t *testing.T) {
	causal := op.AttentionConfig{Causal: true}
	for _, c := range []struct {
		name              string
		dtype             array.DType
		seqQ, seqK        int
		heads, kvs, width int
		config            op.AttentionConfig
		fused             bool
	}{
		{"causal", array.BF16, 12, 12, 2, 2, 8, causal, true},
		{"f16", array.F16, 12, 12, 2, 2, 8, causal, true},
		{"all keys", array.BF16, 12, 12, 2, 2, 8, op.AttentionConfig{Scale: 0.2}, true},
		{"groups", array.BF16, 12, 12, 4, 2, 16, causal, true},
		{"window", array.BF16, 12, 12, 4, 1, 8, op.AttentionConfig{Causal: true, Window: 3}, true},
		{"f32", array.F32, 12, 12, 2, 2, 8, causal, false},
		{"cache", array.BF16, 4, 12, 2, 2, 8, op.AttentionConfig{Causal: true, Offset: 8}, false},
		{"odd width", array.BF16, 12, 12, 2, 2, 6, causal, false},
		{"wide heads", array.BF16, 2, 2, 1, 1, 136, causal, false},
		{"odd length", array.BF16, 11, 11, 2, 2, 8, causal, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ir.NewBuilder("attention")
			param := func(s, h int) *op.Tensor {
				return b.Param("", op.Type{DType: c.dtype, Shape: array.Shape{2, s, h, c.width}})
			}
			q, k, v, d := param(c.seqQ, c.heads), param(c.seqK, c.kvs), param(c.seqK, c.kvs), param(c.seqQ, c.heads)
			y, lse := op.AttentionLSE(q, k, v, c.config)
			f, err := b.Build(append(op.Grad([]*op.Tensor{y}, []*op.Tensor{d}, []*op.Tensor{q, k, v}), y, lse)...)
			if err != nil {
				t.Fatal(err)
			}
			text := checkProgram(t, f, randoms(f.Params()), hlo.Config{Target: hlo.CUDA})
			if calls := strings.Count(text, "__cudnn$fmhaSoftmax"); (calls == 2) != c.fused || calls%2 != 0 {
				t.Errorf("%d calls of cuDNN, want fused: %v", calls, c.fused)
			}
		})
	}
}
