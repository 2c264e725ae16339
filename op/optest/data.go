package optest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Operand makes an operand of a sample, with dtype in place of f32.
func Operand(a op.Arg, dtype array.DType, rng *rand.Rand) array.Array {
	wide := array.New(array.F64, a.Type.Shape...)
	xs := array.Data[float64](wide)
	for i := range xs {
		switch {
		case a.Low != 0 || a.High != 0:
			xs[i] = a.Low + rng.Float64()*(a.High-a.Low)
		case a.Type.DType.IsFloat():
			xs[i] = rng.NormFloat64()
		default:
			xs[i] = float64(rng.IntN(2))
		}
		if !a.Type.DType.IsFloat() {
			xs[i] = math.Floor(xs[i])
		}
	}
	if a.Type.DType == array.F32 {
		return Cast(wide, dtype)
	}
	return Cast(wide, a.Type.DType)
}

// Cast returns the same numbers in another dtype.
func Cast(a array.Array, dtype array.DType) array.Array {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	out, err := cpu.Read(op.Cast(d.NewSession().Tensor(a), dtype))
	if err != nil {
		panic(err)
	}
	return out
}

// Fill makes the operands of a sample from random numbers, with dtype in place of f32.
func Fill(args []op.Arg, dtype array.DType, seed uint64) []array.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]array.Array, len(args))
	for i, a := range args {
		out[i] = Operand(a, dtype, rng)
	}
	return out
}

// Device returns a device of the host that lives as long as the test.
func Device(t *testing.T, threads int) *cpu.Device {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: threads})
	t.Cleanup(d.Close)
	return d
}

// Evaluate runs o alone into memory that holds rubbish.
func Evaluate(t *testing.T, d *cpu.Device, o op.Op, in []array.Array) []array.Array {
	t.Helper()
	types := make([]op.Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	outTypes, err := o.Infer(types)
	if err != nil {
		t.Fatalf("%s: %v", ir.FormatOp(o), err)
	}
	out := make([]array.Array, len(outTypes))
	for i, ty := range outTypes {
		out[i] = array.New(ty.DType, ty.Shape...)
		if ty.DType != array.Bool {
			for j := range out[i].Bytes() {
				out[i].Bytes()[j] = 0xff
			}
		}
	}
	d.Eval(o, in, out)
	return out
}

// Tensors returns arrays as tracked tensors of a session.
func Tensors(s *cpu.Session, in []array.Array) []*op.Tensor {
	out := make([]*op.Tensor, len(in))
	for i, a := range in {
		out[i] = s.Tensor(a).Track()
	}
	return out
}

// Read returns the numbers of a tensor; an error of it ends the test.
func Read(t *testing.T, x *op.Tensor) array.Array {
	t.Helper()
	a, err := cpu.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Same compares arrays bit by bit.
func Same(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if string(got.Bytes()) != string(want.Bytes()) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Near compares a derivative with a central difference.
func Near(t *testing.T, got, want, tolerance float64) {
	t.Helper()
	if diff := math.Abs(got - want); !(diff <= tolerance*(1+math.Abs(want))) {
		t.Errorf("got %.12g, central difference %.12g", got, want)
	}
}

// Tolerance returns the relative error within which two ways to compute in a dtype agree.
func Tolerance(d array.DType) float64 {
	switch d {
	case array.F64:
		return 1e-12
	case array.F32:
		return 1e-5
	}
	return 2e-2
}

// Distance returns ‖got − want‖ / ‖want‖.
func Distance(got, want array.Array) float64 {
	if !got.Shape().Equal(want.Shape()) {
		return math.Inf(1)
	}
	var diff, norm float64
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || g != g && w != w {
			continue
		}
		diff += (g - w) * (g - w)
		norm += w * w
	}
	return math.Sqrt(diff) / max(math.Sqrt(norm), 1e-6)
}

func shapes(ts []op.Type) [][]int {
	out := make([][]int, len(ts))
	for i, t := range ts {
		out[i] = t.Shape
	}
	return out
}

func argTypes(args []op.Arg) []op.Type {
	ts := make([]op.Type, len(args))
	for i, a := range args {
		ts[i] = a.Type
	}
	return ts
}
