package op_test

import (
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitGroups: experts' products and their gradients in several blocks, with empty groups, groups of many blocks, and rows of none.
func TestEmitGroups(t *testing.T) {
	for _, sizes := range [][]int32{
		{300}, {130, 0, 150}, {0, 0, 300}, {1, 298, 1}, {128, 128, 44}, {0, 0, 0}, {127, 129, 0, 3}, {5, 0, 0, 290},
	} {
		b := ir.NewBuilder("groups")
		param := func(d array.DType, shape ...int) *op.Tensor { return b.Param("", op.Type{DType: d, Shape: shape}) }
		x, w, dy := param(array.F64, 300, 3), param(array.F64, len(sizes), 3, 4), param(array.F64, 300, 4)
		n := param(array.I32, len(sizes))
		y := op.GroupedMatMul(x, w, n)
		f, err := b.Build(append(op.Grad([]*op.Tensor{y}, []*op.Tensor{dy}, []*op.Tensor{x, w}), y)...)
		if err != nil {
			t.Fatal(err)
		}
		checkProgram(t, f, array.FromSlice(sizes, len(sizes)))
	}
}

// checkProgram runs a program, given its last operand and random numbers for the others, by kernels and as StableHLO.
func checkProgram(t *testing.T, f *ir.Func, last array.Array) {
	t.Helper()
	rng, d := rand.New(rand.NewPCG(2, 9)), device(t, 1)
	values, in := make([]array.Array, f.NumValues()), make([]array.Array, len(f.Params()))
	for i, p := range f.Params() {
		in[i] = last
		if i < len(in)-1 {
			in[i] = fill(op.Arg{Type: p.Type()}, p.DType(), rng)
		}
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
	text, err := op.Module(f, op.ModuleConfig{Config: hlo.Config{}})
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
}
