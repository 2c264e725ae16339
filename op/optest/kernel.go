package optest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Threads compares one thread with three: their number never changes a bit.
func Threads(t *testing.T, o op.Op, args []op.Arg) {
	in := Fill(args, array.F32, 19)
	want := Evaluate(t, Device(t, 1), o, in)
	for i, got := range Evaluate(t, Device(t, 3), o, in) {
		Same(t, fmt.Sprintf("result %d", i), got, want[i])
	}
}

// InPlace has an op that may overwrite an operand do so: the bits are the same.
func InPlace(t *testing.T, o op.Op, args []op.Arg) {
	ip, ok := o.(op.InPlacer)
	if !ok {
		return
	}
	d := Device(t, 1)
	in := Fill(args, array.F32, 23)
	want := Evaluate(t, d, o, in)
	out, own := make([]array.Array, len(want)), make([]array.Array, len(in))
	for i, a := range in {
		own[i] = a.Clone()
	}
	for r := range want {
		out[r] = array.New(want[r].DType(), want[r].Shape()...)
		if over := ip.InPlace(); r < len(over) && over[r] >= 0 &&
			ir.TypeOf(own[over[r]]).Equal(ir.TypeOf(want[r])) {
			out[r] = own[over[r]]
		}
	}
	d.Eval(o, own, out)
	for i := range want {
		Same(t, fmt.Sprintf("result %d", i), out[i], want[i])
	}
}

// SameOperandTwice has a compiled op that may overwrite an operand read it as another one, too.
// Operands of one type are made one value for it, which nothing else needs.
func SameOperandTwice(t *testing.T, o op.Op, args []op.Arg) {
	ip, ok := o.(op.InPlacer)
	if !ok || len(args) < 2 {
		return
	}
	in := Fill(args, array.F32, 29)
	for _, over := range ip.InPlace() {
		if over < 0 || over >= len(in) || !in[over].DType().IsFloat() {
			continue
		}
		b := ir.NewBuilder("twice")
		twice, values := slices.Clone(in), make([]*op.Tensor, len(in))
		one := op.Neg(op.Neg(b.Param("one", ir.TypeOf(in[over]))))
		for i, a := range in {
			if values[i] = one; ir.TypeOf(a).Equal(ir.TypeOf(in[over])) {
				twice[i] = in[over]
				continue
			}
			values[i] = op.Identity(b.Param("", ir.TypeOf(a)))
		}
		f, err := b.Build(ir.Apply(o, values...)...)
		if err != nil {
			t.Fatal(err)
		}
		given := []array.Array{in[over]}
		for i, a := range in {
			if values[i] != one {
				given = append(given, a)
			}
		}
		d := Device(t, 1)
		want := Evaluate(t, d, o, twice)
		e, err := d.Compile(f, cpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Run(given)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			Same(t, fmt.Sprintf("result %d", i), got[i], want[i])
		}
	}
}

// Composite compares a fused kernel with the definition of the op.
func Composite(t *testing.T, o op.Op, args []op.Arg) {
	c, ok := o.(op.Composite)
	if !ok {
		return
	}
	for _, dtype := range []array.DType{array.F64, array.F32} {
		d := Device(t, 2)
		in := Fill(args, dtype, 29)
		want := c.Decompose(Tensors(d.NewSession(), in))
		for i, got := range Evaluate(t, d, o, in) {
			if e := Distance(got, Read(t, want[i])); e > Tolerance(dtype) {
				t.Errorf("%v result %d: relative error %.3g\ngot  %v\nwant %v", dtype, i, e, got, Read(t, want[i]))
			}
		}
	}
}

// onBits reports whether an op is one of the bits of f32 numbers, and takes no others.
func onBits(o op.Op) bool { return slices.Contains([]string{"split_f32", "join_f32"}, o.Name()) }

// Half compares an op on 16-bit floats with the same numbers in f32: it is those, rounded.
func Half(t *testing.T, o op.Op, args []op.Arg) {
	if onBits(o) {
		return
	}
	for _, dtype := range []array.DType{array.BF16, array.F16} {
		d := Device(t, 1)
		in := Fill(args, dtype, 31)
		types, wide := make([]op.Type, len(in)), make([]array.Array, len(in))
		for i, a := range in {
			types[i], wide[i] = ir.TypeOf(a), a
			if a.DType() == dtype {
				wide[i] = Cast(a, array.F32)
			}
		}
		if _, err := o.Infer(types); err != nil {
			t.Fatalf("%v: %v", dtype, err)
		}
		want := Evaluate(t, d, o, wide)
		for i, got := range Evaluate(t, d, o, in) {
			if e := Distance(got, want[i]); e > Tolerance(dtype) {
				t.Errorf("%v result %d: relative error %.3g", dtype, i, e)
			}
		}
	}
}
