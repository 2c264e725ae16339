package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitDecode: in a loop, as decoding has it, products of a few rows with the same weights' kind are one
// kernel, gates with them, and attention reads pages where they are; what no kernel computes is left as it
// is.
func TestEmitDecode(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  int
		bits  int
		calls map[string]int
	}{
		{"bf16", 3, 16, map[string]int{"skinny_product_16_3x160x64": 1, "gated_skinny_product_16_3x32x64": 1,
			"paged_attention_3x2x1x64_3": 1}},
		{"int8", 1, 8, map[string]int{"skinny_product_8_1x160x64": 1, "gated_skinny_product_8_1x32x64": 1,
			"paged_attention_1x2x1x64_3": 1}},
		{"many rows", 17, 16, map[string]int{"skinny_product": 0, "paged_attention_17x2x1x64_3": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := decodeLoop(t, c.rows, c.bits)
			in := randoms(f.Params())
			for i, p := range f.Params() {
				if p.DType() == array.I32 {
					in[i] = array.New(array.I32, p.Shape()...) // the first page, and its first token
				}
			}
			text := checkProgram(t, f, in, hlo.Config{Target: hlo.CUDA, Products: 1e-9})
			for name, n := range c.calls {
				if got := strings.Count(text, `name = "`+name); got != n {
					t.Errorf("%d calls of %s, want %d", got, name, n)
				}
			}
			plain := checkProgram(t, f, in, hlo.Config{Target: hlo.CUDA})
			if strings.Contains(plain, hlo.PTXTarget) {
				t.Error("a device for which the kernels are not made is given some")
			}
		})
	}
}

// decodeLoop returns two trips of something like a layer, whose weights have so many bits.
func decodeLoop(t *testing.T, rows, bits int) *ir.Func {
	t.Helper()
	const dim = 64
	b := ir.NewBuilder("loop")
	param := func(d array.DType, shape ...int) *op.Tensor { return b.Param("", op.Type{DType: d, Shape: shape}) }
	x := param(array.BF16, rows, 1, dim)
	product := func(cols int) func(x *op.Tensor) *op.Tensor {
		if bits == 16 {
			w := param(array.BF16, cols, dim)
			return func(x *op.Tensor) *op.Tensor { return op.MatMulT(x, w, false, true) }
		}
		q, scale := param(array.U8, cols, dim*bits/8), op.MulScalar(param(array.BF16, cols, dim/32), 0.001)
		return func(x *op.Tensor) *op.Tensor { return op.QuantizedLinear(x, q, scale, nil, bits, 32) }
	}
	query, key, gate, up := product(2*dim), product(dim-32), product(32), product(32)
	down := param(array.BF16, dim, 32)
	keys, values := param(array.BF16, 16, 1, dim), param(array.BF16, 16, 1, dim)
	table, positions := param(array.I32, rows, 3), param(array.I32, rows, 1)
	last, _ := op.ScanWith(op.ScanConfig{Length: 2}, func(carry, _ []*op.Tensor) (next, y []*op.Tensor) {
		x := carry[0]
		heads := op.Reshape(op.Narrow(op.Concat([]*op.Tensor{query(x), key(x)}, -1), 2, 0, 2*dim), rows, 1, 2, dim)
		a := op.PagedAttention(heads, keys, values, table, positions, op.PagedAttentionConfig{Tokens: 8})
		x = op.Add(x, op.Reshape(op.Narrow(a, 2, 0, 1), rows, 1, dim))
		h := op.SwiGLU(gate(x), up(x))
		return []*op.Tensor{op.Add(x, op.MatMulT(h, op.MulScalar(down, 0.1), false, true))}, nil
	}, []*op.Tensor{x}, nil)
	f, err := b.Build(last...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
