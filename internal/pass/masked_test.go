package pass_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// TestMaskedProducts: products of what a causal mask leaves zeros in look for them, those before the mask do
// not, and all bits are those of the ops one by one, also where a value is infinite.
func TestMaskedProducts(t *testing.T) {
	const heads, seq, dim = 2, 200, 48
	b := ir.NewBuilder("masked")
	in := ir.Type{DType: array.F32, Shape: array.Shape{heads, seq, dim}}
	q, k, v := b.Param("q", in), b.Param("k", in), b.Param("v", in)
	s := op.MulScalar(op.MatMulT(q, k, false, true), 0.2)
	key := op.Iota(s.Scope(), array.I32, s.Shape(), 2)
	seen := op.LessEqual(key, op.Iota(s.Scope(), array.I32, s.Shape(), 1))
	s = op.Where(seen, s, op.Const(s, math.Inf(-1)))
	e := op.Exp(op.Sub(s, op.KeepDims(op.AMax(s, -1), s, -1)))
	p := op.Div(e, op.KeepDims(op.Sum(e, -1), e, -1))
	out := op.MatMul(p, v)
	grads := op.Grad([]*op.Tensor{op.Sum(op.Square(out))}, nil, []*op.Tensor{q, k, v})
	f, err := b.Build(append(grads, out)...)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = pass.Optimize(f); err != nil {
		t.Fatal(err)
	}
	g, _, err := pass.Groups(f, pass.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(g.String(), "zeros=true"); n != 4 {
		t.Errorf("%d products skip zeros, want 4:\n%s", n, g)
	}
	d := cpu.NewDevice(cpu.Config{Threads: 3})
	defer d.Close()
	args := numbers(f, 9)
	for _, last := range []float64{1, math.Inf(1)} {
		array.Data[float32](args[2])[in.Shape.Len()-1] = float32(last)
		want := runAll(t, d, f, args)
		for i, got := range runAll(t, d, g, args) {
			sameBits(t, got, want[i], i, f, g)
		}
	}
}
