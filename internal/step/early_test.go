package step

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEarly: gradients are added to their sums as they come, so that the arena has one of them at a time, and
// what a result overwrites is not overwritten before all that reads it.
func TestEarly(t *testing.T) {
	b := ir.NewBuilder("backward")
	typ := func(d array.DType) ir.Type { return ir.Type{DType: d, Shape: array.Shape{64, 64}} }
	x := b.Param("x", typ(array.BF16))
	sums := []*ir.Value{b.Param("sum0", typ(array.F32)), b.Param("sum1", typ(array.F32)),
		b.Param("sum2", typ(array.F32)), b.Param("sum3", typ(array.F32))}
	var grads, results []*ir.Value
	for range sums {
		x = op.MatMul(x, x)
		grads = append(grads, x)
	}
	norm := op.Sum(sums[0]) // reads what the first sum replaces
	for i, s := range sums {
		results = append(results, op.Add(s, op.Cast(grads[i], array.F32)))
	}
	f, err := b.Build(append(results, norm)...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := accumulateEarly(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range g.Nodes() {
		names = append(names, n.Op().Name())
	}
	want := []string{"sum", "matmul", "matmul", "cast", "add", "matmul", "cast", "add", "matmul", "cast", "add",
		"cast", "add"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	arena := func(f *ir.Func) int {
		e, err := cpu.NewOffloadPlan(f, cpu.Options{Donate: []int{1, 2, 3, 4}}, cpu.Offloaded{})
		if err != nil {
			t.Fatal(err)
		}
		for k := range sums {
			if !e.MayShare(k, 1+k) {
				t.Errorf("sum %d is not written in place", k)
			}
		}
		return e.Memory().Arena
	}
	if late, soon := arena(f), arena(g); soon >= late {
		t.Errorf("the arena has %d bytes, %d in the old order", soon, late)
	}
}
