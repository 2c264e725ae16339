package spmd_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// whole runs a program on one device.
func whole(t rapid.TB, f *ir.Func, args []array.Array) []array.Array {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// agrees runs a program partitioned and whole, and compares.
func agrees(t rapid.TB, f *ir.Func, specs []mesh.Spec, m *mesh.Mesh, args []array.Array,
	tolerance float64) *spmd.Program {
	t.Helper()
	return agreesWith(t, f, specs, m, spmd.Config{}, args, tolerance)
}

func agreesWith(t rapid.TB, f *ir.Func, specs []mesh.Spec, m *mesh.Mesh, c spmd.Config, args []array.Array,
	tolerance float64) *spmd.Program {
	t.Helper()
	p, err := spmd.Partition(f, specs, m, c)
	if err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	world, err := inproc.New(m.Size())
	if err != nil {
		t.Fatal(err)
	}
	got, err := runtime.Run(context.Background(), world, p, args)
	if err != nil {
		local, _ := p.Local(m.Devices()[0])
		t.Fatalf("%v\n%v\n%v\n%v", err, f, specs, local)
	}
	for i, want := range whole(t, f, args) {
		if e := farthest(got[i], want); e > tolerance {
			local, _ := p.Local(m.Devices()[0])
			t.Fatalf("result %d: error %.3g\ngot  %v\nwant %v\n%v\n%v\n%v", i, e, got[i], want, f, specs, local)
		}
	}
	return p
}

// TestRandomPrograms: partition, run and gather is the same as to run.
func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := mesh.Parse(rapid.SampledFrom([]string{"x=2", "x=3", "x=2,y=2", "x=2,y=3"}).Draw(t, "mesh"))
		f := randomProgram(t)
		specs := make([]mesh.Spec, f.NumValues())
		for _, v := range values(f) {
			specs[v.ID()] = randomSpec(t, m, v)
		}
		var args []array.Array
		for i, p := range f.Params() {
			args = append(args, ramp(p.Type(), i))
		}
		agrees(t, f, specs, m, args, 1e-11)
	})
}

func values(f *ir.Func) []*ir.Value {
	list := append([]*ir.Value(nil), f.Params()...)
	for _, n := range f.Nodes() {
		list = append(list, n.Out()...)
	}
	return list
}

func randomSpec(t *rapid.T, m *mesh.Mesh, v *ir.Value) mesh.Spec {
	var kinds []mesh.Reduce
	if v.DType().IsFloat() {
		kinds = []mesh.Reduce{mesh.Sum}
	}
	return rapid.SampledFrom(allSpecs(m, len(v.Shape()), kinds...)).Draw(t, "spec")
}

// ramp returns an array of moderate numbers that do not repeat soon.
func ramp(t ir.Type, seed int) array.Array {
	a := array.New(t.DType, t.Shape...)
	for i := range a.Len() {
		array.Data[float64](a)[i] = float64((i*37+seed*11)%23-11) / 8
	}
	return a
}

// randomProgram returns a few ops on matrices.
func randomProgram(t *rapid.T) *ir.Func {
	b := ir.NewBuilder("main")
	size := func(name string) int { return rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6}).Draw(t, name) }
	n, k := size("n"), size("k")
	live := []*op.Tensor{}
	for range 2 {
		live = append(live, b.Param("x", ir.Type{DType: array.F64, Shape: array.Shape{n, k}}))
	}
	pick := func() *op.Tensor { return rapid.SampledFrom(live).Draw(t, "operand") }
	for range rapid.IntRange(2, 7).Draw(t, "ops") {
		live = append(live, randomOp(t, pick))
	}
	f, err := b.Build(live[len(live)-1], live[len(live)-2])
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func randomOp(t *rapid.T, pick func() *op.Tensor) *op.Tensor {
	x, y := pick(), pick()
	same := x.Shape().Equal(y.Shape())
	rank := len(x.Shape())
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0:
		if same {
			return op.Add(x, y)
		}
		return op.Neg(x)
	case 1:
		if same {
			return op.Mul(x, op.Tanh(y))
		}
	case 2:
		if rank == 2 {
			return op.Transpose(x, 1, 0)
		}
	case 3:
		if rank == 2 && len(y.Shape()) == 2 && y.Dim(0) == x.Dim(1) {
			return op.MatMul(x, y)
		}
	case 4:
		if rank == 2 {
			return op.MatMul(x, op.Transpose(x, 1, 0))
		}
	case 5:
		if rank == 2 {
			return op.Sum(x, rapid.IntRange(0, 1).Draw(t, "dim"))
		}
	case 6:
		if rank >= 1 {
			return op.Softmax(x, -1)
		}
	case 7:
		return op.Reshape(x, x.Shape().Len())
	case 8:
		if rank == 2 {
			return op.Mean(x, rapid.IntRange(0, 1).Draw(t, "dim"))
		}
	case 9:
		if rank == 1 {
			return op.Expand(op.Reshape(x, 1, x.Dim(0)), 3, x.Dim(0))
		}
	case 10:
		return op.MulScalar(x, 0.5)
	}
	return op.Tanh(x)
}
