package op_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestFlowTogether: an MLP in a loop, whose weights are split as Megatron does, is computed where they are: one
// sum in each trip, and nothing is gathered; rows of a batch need nothing.
func TestFlowTogether(t *testing.T) {
	m, err := mesh.Parse("dp=2,tp=2")
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("main")
	f32 := func(name string, shape ...int) *op.Tensor {
		return b.Param(name, op.Type{DType: array.F32, Shape: shape})
	}
	h, x, up, down := f32("h", 64, 256), f32("x", 8, 64, 256), f32("up", 256, 1024), f32("down", 1024, 256)
	last, _ := op.Scan(func(carry, row []*op.Tensor) (next, y []*op.Tensor) {
		z := op.MatMul(op.Tanh(op.MatMul(op.Add(carry[0], row[0]), up)), down)
		return []*op.Tensor{op.Tanh(op.Add(carry[0], z))}, nil
	}, []*op.Tensor{h}, []*op.Tensor{x})
	f, err := b.Build(last[0])
	if err != nil {
		t.Fatal(err)
	}
	specs := make([]mesh.Spec, f.NumValues())
	for i := range specs {
		specs[i] = mesh.Whole(3)
	}
	for i, text := range []string{"@[dp,_]", "@[_,dp,_]", "@[_,tp]", "@[tp,_]", "@[dp,_]", "@[_,dp,_]"} {
		if specs[i], err = mesh.ParseSpec(text); err != nil {
			t.Fatal(err)
		}
	}
	p, err := spmd.Partition(f, specs, m, spmd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	local, err := p.Local(3)
	if err != nil {
		t.Fatal(err)
	}
	text := local.String()
	if strings.Count(text, "all_reduce") != 1 || strings.Contains(text, "all_gather") || len(local.Nodes()) != 1 {
		t.Errorf("got %s, want one scan with a sum in its body", text)
	}
	if moved := p.Inserted(); len(moved) != 1 || moved[0].Move.Cost.Collectives != 8 {
		t.Errorf("got %v, want one sum in each of 8 trips", moved)
	}
}
