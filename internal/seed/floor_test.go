package seed_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestFloor: no labelling is below the floor, which is that of products at their shares where nothing else
// costs.
func TestFloor(t *testing.T) {
	b := ir.NewBuilder("f")
	param := func(name string, shape ...int) *ir.Value {
		return b.Param(name, ir.Type{DType: array.F32, Shape: shape})
	}
	y := op.MatMul(op.ReLU(op.MatMul(param("x", 64, 128), param("v", 128, 256))), param("w", 256, 64))
	f, err := b.Build(y)
	if err != nil {
		t.Fatal(err)
	}
	prices := spmd.Prices{Flop: 1e-9, Memory: 1e-15}
	for _, n := range []int{1, 2, 4} {
		m, err := mesh.New([]mesh.Axis{{Name: "tp", Size: n}})
		if err != nil {
			t.Fatal(err)
		}
		floor, err := seed.Floor(f, m, prices)
		if err != nil {
			t.Fatal(err)
		}
		r, err := seed.Find(f, seed.Config{Mesh: m, Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		products := 2 * 64 * 256 * (128 + 64) * 1e-9 / float64(n)
		if floor > r.Time || floor < 0.999*products || floor > 1.001*products {
			t.Errorf("%d devices: floor %g s, products %g s, found %g s", n, floor, products, r.Time)
		}
	}
}
