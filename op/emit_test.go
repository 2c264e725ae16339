package op_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/op"
)

// notLowered are the ops without StableHLO, with the reason.
var notLowered = map[string]string{
	"transfer":                "messages between meshes are not part of one program there",
	"all_to_all_experts":      "how many rows go where is known at run time only",
	"all_to_all_experts_grad": "how many rows go where is known at run time only",
	"ring_shift":              "of uneven parts: the dialect's collectives take equal ones",
}

// emitted is a module of one op on operands of these types, parsed back; nil where the op has no StableHLO.
func emitted(t *testing.T, o op.Op, types []op.Type, c hlo.Config) *hlo.Program {
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

// TestEmit: what every op writes as StableHLO, run, is what its kernel computes.
func TestEmit(t *testing.T) {
	for _, dtype := range []array.DType{array.F64, array.F32, array.BF16} {
		t.Run(dtype.String(), func(t *testing.T) {
			law(t, func(t *testing.T, o op.Op, args []op.Arg) {
				checkEmit(t, o, fillAll(args, dtype, 5),
					hlo.Config{})
			})
		})
	}
}

// TestEmitBlocks: attention does not depend on how its queries are cut.
func TestEmitBlocks(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		if strings.HasPrefix(o.Name(), "attention") {
			checkEmit(t, o, fillAll(args, array.F64, 6), hlo.Config{Scores: 90})
		}
	})
}

func checkEmit(t *testing.T, o op.Op, in []array.Array, c hlo.Config) {
	types := make([]op.Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	if _, err := o.Infer(types); err != nil {
		t.Skip(err) // an attribute says another dtype
	}
	p := emitted(t, o, types, c)
	if p == nil {
		return
	}
	got, err := interp.Run(p, [][]array.Array{in})
	if err != nil {
		t.Fatalf("%v\n%v", err, p)
	}
	for i, want := range evaluate(t, device(t, 1), o, in) {
		compareEmit(t, i, got[0][i], want)
	}
}

// emitTolerance is how far results may be apart, relative to their size or to one.
var emitTolerance = map[array.DType]float64{array.F64: 1e-12, array.F32: 2e-5, array.BF16: 2e-2,
	array.F16: 2e-3}

func compareEmit(t *testing.T, i int, got, want array.Array) {
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

// TestEmitDraws: uniform numbers are those of the CPU to the last bit.
func TestEmitDraws(t *testing.T) {
	for _, name := range []string{"uniform", "bernoulli"} {
		o, _ := op.Lookup(name)
		for _, s := range o.(op.Op).Samples() {
			in := fillAll(s.In, array.F32, 3)
			types := make([]op.Type, len(in))
			for i, a := range in {
				types[i] = ir.TypeOf(a)
			}
			got, err := interp.Run(emitted(t, s.Op, types, hlo.Config{}), [][]array.Array{in})
			if err != nil {
				t.Fatal(err)
			}
			if want := evaluate(t, device(t, 1), s.Op, in)[0]; !bytes.Equal(got[0][0].Bytes(), want.Bytes()) {
				t.Errorf("%s: got %v, want %v", ir.FormatOp(s.Op), got[0][0], want)
			}
		}
	}
}

// randoms is normal numbers for parameters that are floats.
func randoms(params []*op.Tensor) []array.Array {
	rng, out := rand.New(rand.NewPCG(4, 4)), make([]array.Array, len(params))
	for i, p := range params {
		out[i] = fill(op.Arg{Type: op.Type{DType: array.F32, Shape: p.Shape()}}, p.DType(), rng)
	}
	return out
}

// checkProgram compares a program's StableHLO, run, with what kernels make of it, and returns it.
func checkProgram(t *testing.T, f *ir.Func, in []array.Array, c hlo.Config) string {
	t.Helper()
	d, values := device(t, 1), make([]array.Array, f.NumValues())
	for i, p := range f.Params() {
		values[p.ID()] = in[i]
	}
	for _, n := range f.Nodes() {
		args := make([]array.Array, len(n.In()))
		for i, v := range n.In() {
			args[i] = values[v.ID()]
		}
		for i, a := range evaluate(t, d, n.Op().(op.Op), args) {
			values[n.Out()[i].ID()] = a
		}
	}
	text, err := lower.Module(f, lower.ModuleConfig{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	p, err := hlo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := interp.Run(p, [][]array.Array{in})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range f.Results() {
		compareEmit(t, i, got[0][i], values[v.ID()])
	}
	return text
}
