package pass_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// deepModel returns the gradient of blocks of a norm in primitive ops, a product and an activation in
// primitive ops.
func deepModel(blocks int) (*ir.Func, error) {
	b := ir.NewBuilder("deep")
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{256, 64}})
	var weights []*op.Tensor
	y := x
	for range blocks {
		w := b.Param("w", ir.Type{DType: array.F32, Shape: array.Shape{64, 64}})
		weights = append(weights, w)
		scale := op.Rsqrt(op.AddScalar(op.KeepDims(op.Mean(op.Square(y), -1), y, -1), 1e-6))
		h := op.MatMul(op.Mul(y, scale), w)
		t := op.Tanh(op.MulScalar(op.Add(h, op.MulScalar(op.Mul(op.Mul(h, h), h), 0.044715)), 0.8))
		y = op.Add(y, op.Mul(op.MulScalar(h, 0.5), op.AddScalar(t, 1)))
	}
	f, err := b.Build(op.Grad([]*op.Tensor{op.Mean(y)}, nil, weights)...)
	if err != nil {
		return nil, err
	}
	return pass.Optimize(f)
}

// TestManyLoops: the code of a program of 1,600 ops fits into a mebibyte. How long it takes to make is
// printed.
func TestManyLoops(t *testing.T) {
	f, err := deepModel(33)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Nodes()) < 1600 {
		t.Fatalf("the program has %d ops: want 1600", len(f.Nodes()))
	}
	out, g, err := pass.Groups(f, pass.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	size, loops := 0, 0
	for _, n := range out.Nodes() {
		if _, ok := op.FusedBody(n.Op()); ok {
			loops++
			size += op.FusedSize(n.Op()) // at most: loops that are alike share their code
		}
	}
	if t.Log(g.Totals()); size > 1<<20 || op.LoopsCompiled() && loops == 0 {
		t.Errorf("%d loops have %d bytes of code: want at most %d", loops, size, 1<<20)
	}
}

func BenchmarkGroups(b *testing.B) {
	f, err := deepModel(33)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(f.Nodes())), "nodes")
	for b.Loop() {
		if _, _, err := pass.Groups(f, pass.GroupConfig{}); err != nil {
			b.Fatal(err)
		}
	}
}
