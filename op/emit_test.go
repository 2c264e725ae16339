package op_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/op/optest"
)

// TestEmitBlocks: attention does not depend on how its queries are cut.
func TestEmitBlocks(t *testing.T) {
	law(t, func(t *testing.T, o op.Op, args []op.Arg) {
		if strings.HasPrefix(o.Name(), "attention") {
			optest.CheckEmit(t, o, fillAll(args, array.F64, 6), hlo.Config{Scores: 90})
		}
	})
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
			got, err := interp.Run(optest.Emitted(t, s.Op, types, hlo.Config{}), [][]array.Array{in})
			if err != nil {
				t.Fatal(err)
			}
			if want := evaluate(t, device(t, 1), s.Op, in)[0]; !bytes.Equal(got[0][0].Bytes(), want.Bytes()) {
				t.Errorf("%s: got %v, want %v", ir.FormatOp(s.Op), got[0][0], want)
			}
		}
	}
}

// randoms returns normal numbers for parameters that are floats.
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
		optest.CompareEmit(t, i, got[0][i], values[v.ID()])
	}
	return text
}
