package cpu_test

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestSpent: what a run makes after it has read spent parameters for the last time lives in their memory, and
// its results are the same; parameters that are not spent stay as they were.
func TestSpent(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	const n = 16
	b := ir.NewBuilder("main")
	square := ir.Type{DType: array.F64, Shape: array.Shape{n, n}}
	x, y, w := b.Param("x", square), b.Param("y", square), b.Param("w", square)
	h := op.MatMul(op.MatMul(x, w), w)
	h = op.MatMul(h, y) // the last that reads y
	h = op.MatMul(op.MatMul(h, w), w)
	f, err := b.Build(op.Reshape(op.Tanh(h), n*n), op.MatMul(h, w))
	if err != nil {
		t.Fatal(err)
	}
	run := func(spend ...int) (results, params []array.Array, arena int) {
		e, err := cpu.NewPlan(f, cpu.Options{Spend: spend, NoFuse: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			xs := sequence(n * n)
			params = append(params, array.FromSlice(slices.Concat(xs[i:], xs[:i]), n, n))
		}
		for _, v := range f.Results() {
			results = append(results, array.New(v.DType(), v.Shape()...))
		}
		arena = e.Memory().Arena
		if err := e.RunOver(d, array.New(array.U8, arena).Bytes(), params, results, nil); err != nil {
			t.Fatal(err)
		}
		return results, params, arena
	}
	want, plain, all := run()
	got, params, less := run(0, 1)
	for i := range want {
		if !slices.Equal(got[i].Bytes(), want[i].Bytes()) {
			t.Errorf("result %d is another one with spent parameters", i)
		}
	}
	if !slices.Equal(params[2].Bytes(), plain[2].Bytes()) {
		t.Error("a parameter that was not spent has changed")
	}
	if bytes := n * n * 8; less > all-bytes {
		t.Errorf("the arena takes %d bytes with spent parameters, %d without: want %d less", less, all, bytes)
	}
	for _, o := range []cpu.Options{{Spend: []int{3}}, {Spend: []int{-1}}, {Spend: []int{1}, Donate: []int{1}}} {
		if _, err := cpu.NewPlan(f, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
