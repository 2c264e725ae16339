package pass_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// TestFuse says what becomes one op, and that its results are those of the two to the last bit.
func TestFuse(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	b := ir.NewBuilder("fuse")
	f32 := func(shape ...int) *op.Tensor { return b.Param("", ir.Type{DType: array.F32, Shape: shape}) }
	x, w, wt, bias, wide := f32(2, 300, 700), f32(700, 96), f32(96, 700), f32(96), f32(300, 96)
	kept := op.MatMul(x, w)
	f, err := b.Build(
		op.Add(op.MatMul(op.Neg(x), w), bias), op.Add(op.MatMulT(x, wt, false, true), bias),
		op.Add(kept, bias), kept, // used twice
		// no bias; equal to an earlier product, but this is not merged
		op.Add(op.MatMulT(x, wt, false, true), wide),
	)
	if err != nil {
		t.Fatal(err)
	}
	g, err := pass.Fuse(f)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, n := range g.Nodes() {
		counts[n.Op().Name()]++
	}
	if got, want := fmt.Sprint(counts), "map[add:2 linear:2 matmul:2 neg:1]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	var args []array.Array
	for i, p := range f.Params() {
		a := array.New(array.F32, p.Shape()...)
		for j, data := 0, array.Data[float32](a); j < len(data); j++ {
			data[j] = float32((j*7919+i*31)%2003)/1001 - 1
		}
		args = append(args, a)
	}
	want, got := execute(t, d, f, args), execute(t, d, g, args)
	for i := range want {
		if !bytes.Equal(want[i].Bytes(), got[i].Bytes()) {
			t.Errorf("result %d differs", i)
		}
	}
}
