package nn_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestDraw: a box of a first value is that of the whole one, to the bit, also where an initializer's ops
// cannot be cut.
func TestDraw(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	scaled := func(s op.Scope, key op.Key, t op.Type) *op.Tensor { // columns of one length
		x := op.Normal(s, key, t.DType, t.Shape)
		return op.Div(x, op.Sqrt(op.Sum(op.Mul(x, x), 0)))
	}
	sorted := func(s op.Scope, key op.Key, t op.Type) *op.Tensor {
		return op.CumSum(op.Uniform(s, key, t.DType, t.Shape), 0)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, first := range map[string]nn.Initializer{"normal": nn.Normal(0.02), "uniform": nn.Uniform(0.3),
		"constant": nn.Constant(2), "scaled": scaled, "sorted": sorted} {
		for _, shape := range []array.Shape{{7}, {5, 9}, {3, 4, 5}, {1200, 1100}} {
			for _, dtype := range []array.DType{array.F32, array.F64, array.BF16} {
				whole := nn.NewInit(nn.Config{Scope: d.NewSession(), DType: dtype, Seed: 4}).Param("w", shape, first)
				want, err := cpu.Read(whole.Value)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				p := nn.NewInit(nn.Config{DType: dtype, Seed: 4}).Param("w", shape, first)
				box := boxIn(r, shape)
				got := array.New(dtype, box.Size...)
				if err := p.Draw(d, box, got); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				part := array.New(dtype, box.Size...)
				array.CopyBox(part, make([]int, len(shape)), want, box.Start, box.Size)
				if !bytes.Equal(got.Bytes(), part.Bytes()) {
					t.Errorf("%s %v %v: box %v differs from the whole", name, dtype, shape, box)
				}
			}
		}
	}
}

// boxIn returns a random box of a shape, not empty.
func boxIn(r *rand.Rand, shape array.Shape) (b mesh.Box) {
	for _, n := range shape {
		start := r.IntN(n)
		b.Start, b.Size = append(b.Start, start), append(b.Size, 1+r.IntN(n-start))
	}
	return b
}

// TestDrawRead: a parameter that is read from somewhere has no first value to draw.
func TestDrawRead(t *testing.T) {
	in := nn.NewInit(nn.Config{Load: func(string, op.Type) (*op.Tensor, error) { return nil, nil }})
	p := in.Param("w", array.Shape{2}, nn.Constant(1))
	if p.Drawn() {
		t.Error("it says that it is drawn")
	}
	if err := p.Draw(nil, mesh.Box{Start: []int{0}, Size: []int{2}}, array.New(array.F32, 2)); err == nil {
		t.Error("it was drawn")
	}
}
