package cpu_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// model returns a small function with reuse, aliasing and in-place chances.
func model(x, w *op.Tensor) *op.Tensor {
	h := op.Exp(op.Mul(op.MatMul(x, w), op.Const(x, 0.1)))
	h = op.Add(h, op.Reshape(op.Reshape(h, -1), h.Shape()...))
	return op.Sum(op.Mul(h, h))
}

func sequence(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i%7) - 3
	}
	return xs
}

func TestEagerEqualsTraced(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 2})
	defer d.Close()
	a, b := array.FromSlice(sequence(12), 3, 4), array.FromSlice(sequence(20), 4, 5)

	s := d.NewSession()
	x, w := s.Tensor(a).Track(), s.Tensor(b).Track()
	y := model(x, w)
	g := op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x, w})
	h := op.Grad([]*op.Tensor{op.Sum(g[0])}, nil, []*op.Tensor{w})
	var eager []array.Array
	for _, v := range []*op.Tensor{y, g[0], g[1], h[0]} {
		r, err := cpu.Read(v)
		if err != nil {
			t.Fatal(err)
		}
		eager = append(eager, r)
	}

	bld := ir.NewBuilder("main")
	x, w = bld.Param("x", ir.TypeOf(a)), bld.Param("w", ir.TypeOf(b))
	y = model(x, w)
	g = op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x, w})
	h = op.Grad([]*op.Tensor{op.Sum(g[0])}, nil, []*op.Tensor{w})
	f, err := bld.Build(y, g[0], g[1], h[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := ir.Check(f); err != nil {
		t.Fatal(err)
	}
	if back, err := ir.Parse(f.String(), op.Lookup); err != nil || back.String() != f.String() {
		t.Fatalf("parse: %v\n%v\n%v", err, f, back)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run([]array.Array{a, b})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if string(got[i].Bytes()) != string(eager[i].Bytes()) {
			t.Errorf("result %d: traced %v, eager %v\n%v", i, got[i], eager[i], f)
		}
	}
}
