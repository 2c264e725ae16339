package backendtest

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// trace returns the program of f.
func trace(t *testing.T, in []ir.Type, f func(in []*op.Tensor) []*op.Tensor) *ir.Func {
	t.Helper()
	b := ir.NewBuilder("main")
	args := make([]*op.Tensor, len(in))
	for i, typ := range in {
		args[i] = b.Param("", typ)
	}
	p, err := b.Build(f(args)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func types(dtype array.DType, shapes ...[]int) []ir.Type {
	list := make([]ir.Type, len(shapes))
	for i, s := range shapes {
		list[i] = ir.Type{DType: dtype, Shape: s}
	}
	return list
}

// numbers returns an array of small numbers that differ.
func numbers(shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range a.Len() {
		array.Data[float64](a)[i] = math.Sin(float64(3*i + 1))
	}
	return a
}

func compile(t *testing.T, b backend.Backend, f *ir.Func, o backend.Options) backend.Executable {
	t.Helper()
	exe, err := b.Compile(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func put(t *testing.T, b backend.Backend, a array.Array) backend.Buffer {
	t.Helper()
	x, err := b.Put(a)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func run(t *testing.T, exe backend.Executable, args ...backend.Buffer) []backend.Buffer {
	t.Helper()
	out, err := exe.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, b backend.Buffer) array.Array {
	t.Helper()
	a, err := b.Read()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
