package op_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestFlowTogether: an MLP in a loop, whose weights are split as Megatron does, is computed where they are:
// one sum in each trip, and nothing is gathered; rows of a batch need nothing.
func TestFlowTogether(t *testing.T) {
	m, err := mesh.Parse("dp=2,tp=2")
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("main")
	f32 := func(name string, shape ...int) *op.Tensor {
		return b.Param(name, op.Type{DType: array.F32, Shape: shape})
	}
	h, x, up, down := f32("h", 64, 96), f32("x", 3, 64, 96), f32("up", 96, 512), f32("down", 512, 96)
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
	if strings.Count(text, "all_reduce") != 1 || strings.Contains(text, "all_gather") ||
		len(local.Nodes()) != 1 {
		t.Errorf("got %s, want one scan with a sum in its body", text)
	}
	together(t, p, f)
	if moved := p.Inserted(); len(moved) != 1 || moved[0].Move.Cost.Collectives != 3 {
		t.Errorf("got %v, want one sum in each of 3 trips", moved)
	}
}

// together runs the devices' programs as one module of StableHLO, whose loop has the sum in it, and compares
// with one device.
func together(t *testing.T, p *spmd.Program, f *ir.Func) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	d := device(t, 1)
	whole := make([]array.Array, len(f.Params()))
	for i, v := range f.Params() {
		whole[i] = fill(op.Arg{Type: v.Type(), Low: -0.05, High: 0.05}, array.F32, rng)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Run(whole)
	if err != nil {
		t.Fatal(err)
	}
	var locals []*ir.Func
	args := make([][]array.Array, 4)
	for device := range args {
		local, err := p.Local(device)
		if err != nil {
			t.Fatal(err)
		}
		locals = append(locals, local)
		for i, v := range local.Params() {
			args[device] = append(args[device], partOf(whole[i], v.Shape(), device))
		}
	}
	text, err := lower.SPMD(locals, lower.ModuleConfig{})
	if err != nil {
		t.Fatal(err)
	}
	module, err := hlo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := interp.Run(module, args)
	if err != nil {
		t.Fatal(err)
	}
	for device, list := range got {
		if e := distance(list[0], partOf(want[0], list[0].Shape(), device)); e > 1e-5 {
			t.Errorf("device %d: relative error %.3g", device, e)
		}
	}
}

// partOf returns a device's part on dp=2,tp=2: rows, the second dim of three, go along dp, other halves along
// tp.
func partOf(a array.Array, shape array.Shape, device int) array.Array {
	out := array.New(a.DType(), shape...)
	batch := len(a.Shape()) - 2
	for i := range out.Len() {
		at, rest, stride := 0, i, 1
		for d := len(shape) - 1; d >= 0; d-- {
			k := rest % shape[d]
			rest /= shape[d]
			if shape[d] < a.Shape()[d] {
				along := device % 2
				if d == batch && a.Shape()[d] == 64 {
					along = device / 2
				}
				k += along * shape[d]
			}
			at, stride = at+k*stride, stride*a.Shape()[d]
		}
		out.Set(i, a.At(at))
	}
	return out
}
