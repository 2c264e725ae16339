package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/op"
)

// productCase is a block whose products kernels may compute with what follows them.
type productCase struct {
	dtype      array.DType
	target     hlo.Target
	seq        int
	heads, kvs int
	width      int
	rope       op.RoPEConfig
	least      float64
	again      bool   // keys are read before they are turned, too
	turned     string // the kernel of queries, keys and values; empty for none
	gated      int    // calls of gated_product, and of gated_gradient
}

// TestEmitProducts: products go with RoPE and SwiGLU behind them where kernels fit: on CUDA, in 16 bits, in
// whole tiles.
func TestEmitProducts(t *testing.T) {
	whole := productCase{dtype: array.BF16, target: hlo.CUDA, seq: 128, heads: 4, kvs: 4, width: 64, least: 1e-9,
		turned: "turned_product_2", gated: 1}
	cases := map[string]func(c *productCase){
		"whole":      func(*productCase) {},
		"f16":        func(c *productCase) { c.dtype, c.turned, c.gated = array.F16, "", 0 },
		"groups":     func(c *productCase) { c.heads = 8 },
		"wide heads": func(c *productCase) { c.heads, c.kvs, c.width = 2, 2, 128 },
		"offset":     func(c *productCase) { c.rope.Offset, c.rope.Factor = 7, 1.5 },
		"f32":        func(c *productCase) { c.dtype, c.turned, c.gated = array.F32, "", 0 },
		"any":        func(c *productCase) { c.target, c.turned, c.gated = hlo.Any, "", 0 },
		"other":      func(c *productCase) { c.least, c.turned, c.gated = 0, "", 0 },
		// 3 and 2 tiles for 66 pairs of units
		"idle":        func(c *productCase) { c.least, c.turned, c.gated = 0.1, "", 0 },
		"odd rows":    func(c *productCase) { c.seq, c.turned, c.gated = 120, "", 0 },
		"odd widths":  func(c *productCase) { c.kvs, c.turned = 2, "" },
		"interleaved": func(c *productCase) { c.rope.Style, c.turned = "interleaved", "" },
		"part":        func(c *productCase) { c.rope.Dim, c.turned = 32, "" },
		// keys are turned behind the kernel
		"read again": func(c *productCase) { c.again, c.turned = true, "turned_product_1" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "whole" {
				t.Skip("the interpreter takes seconds for each, on one thread")
			}
			c := whole
			change(&c)
			f := c.program(t)
			config := hlo.Config{Target: c.target, Products: c.least}

			text, err := lower.Module(f, lower.ModuleConfig{Config: config})
			if err != nil {
				t.Fatal(err)
			}
			// other programs are run elsewhere, smaller
			if strings.Contains(text, hlo.PTXTarget) && (name == "whole" || !testing.Short()) {
				checkProgram(t, f, randoms(f.Params()), config)
			}
			for _, name := range []string{"turned_product_1", "turned_product_2", "gated_product", "gated_gradient"} {
				want := c.gated
				if strings.HasPrefix(name, "turned") {
					want = strings.Count(c.turned, name)
				}
				if got := strings.Count(text, `name = "`+name+`"`); got != want {
					t.Errorf("%d calls of %s, want %d", got, name, want)
				}
			}
		})
	}
}

// program returns attention and a gated layer, with gradients.
func (c productCase) program(t *testing.T) *ir.Func {
	const depth = 256
	b := ir.NewBuilder("block")
	param := func(name string, dims ...int) *op.Tensor { // small, as products of products follow
		return op.MulScalar(b.Param(name, op.Type{DType: c.dtype, Shape: dims}), 0.125)
	}
	x := param("x", 2, c.seq, depth)
	w := param("w", (c.heads+2*c.kvs)*c.width, depth)
	out, gate, down := param("out", depth, c.heads*c.width), param("gate", 512, depth), param("down", depth, 256)
	parts := op.Split(op.MatMulT(x, w, false, true), 2, c.heads*c.width, c.kvs*c.width, c.kvs*c.width)
	heads := func(i, n int) *op.Tensor { return op.Reshape(parts[i], 2, c.seq, n, c.width) }
	keys := heads(1, c.kvs)
	q, k := op.RoPE(heads(0, c.heads), c.rope), op.RoPE(keys, c.rope)
	if c.again {
		k = op.Add(k, keys)
	}
	y := op.Attention(q, k, heads(2, c.kvs), op.AttentionConfig{Causal: true})
	y = op.MatMulT(op.Reshape(y, 2, c.seq, c.heads*c.width), out, false, true)
	gates := op.Chunk(op.MatMulT(y, gate, false, true), -1, 2)
	z := op.MatMulT(op.SwiGLU(gates[0], gates[1]), down, false, true)
	f, err := b.Build(append(op.Grad([]*op.Tensor{op.Mean(z)}, nil, []*op.Tensor{x, w, gate, down}), z)...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEmitNoDepth: a product of no depth is zeros, and no kernel's.
func TestEmitNoDepth(t *testing.T) {
	b := ir.NewBuilder("empty")
	x := b.Param("x", op.Type{DType: array.BF16, Shape: array.Shape{256, 0}})
	w := b.Param("w", op.Type{DType: array.BF16, Shape: array.Shape{512, 0}})
	parts := op.Chunk(op.MatMulT(x, w, false, true), -1, 2)
	f, err := b.Build(op.SwiGLU(parts[0], parts[1]))
	if err != nil {
		t.Fatal(err)
	}
	if text := checkProgram(t, f, randoms(f.Params()),
		hlo.Config{Target: hlo.CUDA, Products: 1e-9}); strings.Contains(text, hlo.PTXTarget) {
		t.Error("a kernel multiplies nothing")
	}
}
