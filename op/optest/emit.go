package optest

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// notLowered are the ops without StableHLO, with the reason.
var notLowered = map[string]string{
	"transfer":                "messages between meshes are not part of one program there",
	"all_to_all_experts":      "how many rows go where is known at run time only",
	"all_to_all_experts_grad": "how many rows go where is known at run time only",
	"ring_shift":              "of uneven parts: the dialect's collectives take equal ones",
}

// Emitted returns a module of one op on operands of these types, parsed back; nil where the op has no
// StableHLO.
func Emitted(t *testing.T, o op.Op, types []op.Type, c hlo.Config) *hlo.Program {
	t.Helper()
	w := hlo.NewWriter(c)
	refs := make([]hlo.Ref, len(types))
	for i, ty := range types {
		refs[i] = w.Param(hlo.Type{DType: ty.DType, Shape: ty.Shape})
	}
	out, err := o.Infer(types)
	if err != nil {
		t.Fatal(err)
	}
	got := o.Emit(w, refs, out)
	if w.Err() != nil {
		if notLowered[o.Name()] == "" {
			t.Error(w.Err())
		}
		return nil
	}
	for i, want := range out {
		if got[i].DType != want.DType || !got[i].Shape.Equal(want.Shape) {
			t.Errorf("result %d is %v, want %v", i, got[i].Type, want)
		}
	}
	text := w.Module("op", got...)
	p, err := hlo.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if back := p.String(); back != text {
		t.Fatalf("parses back as\n%s\nwant\n%s", back, text)
	}
	if err := p.Verify(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// Emit compares what an op writes as StableHLO, run, with what its kernel computes, in f64, f32 and bf16.
func Emit(t *testing.T, o op.Op, args []op.Arg) {
	for _, dtype := range []array.DType{array.F64, array.F32, array.BF16} {
		t.Run(dtype.String(), func(t *testing.T) { CheckEmit(t, o, Fill(args, dtype, 5), hlo.Config{}) })
	}
}

// CheckEmit is the law of Emit for given operands.
func CheckEmit(t *testing.T, o op.Op, in []array.Array, c hlo.Config) {
	types := make([]op.Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	if _, err := o.Infer(types); err != nil {
		t.Skip(err) // an attribute says another dtype
	}
	p := Emitted(t, o, types, c)
	if p == nil {
		return
	}
	got, err := interp.Run(p, [][]array.Array{in})
	if err != nil {
		t.Fatalf("%v\n%v", err, p)
	}
	for i, want := range Evaluate(t, Device(t, 1), o, in) {
		CompareEmit(t, i, got[0][i], want)
	}
}

// emitTolerance is how far results may be apart, relative to their size or to one.
var emitTolerance = map[array.DType]float64{array.F64: 1e-12, array.F32: 2e-5, array.BF16: 2e-2,
	array.F16: 2e-3}

// CompareEmit compares result i of an op as StableHLO with the kernel's.
func CompareEmit(t *testing.T, i int, got, want array.Array) {
	t.Helper()
	limit := emitTolerance[want.DType()]
	for j := range want.Len() {
		g, w := got.At(j), want.At(j)
		if g == w || g != g && w != w || math.Abs(g-w) <= limit*math.Max(1, math.Abs(w)) {
			continue
		}
		t.Fatalf("result %d, element %d of %v: got %v, want %v", i, j, want.Shape(), g, w)
	}
}
