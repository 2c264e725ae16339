package cpu_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// expertProgram returns a mixture of 6 experts, twice, and gradients of the second; weights are parameters 3
// and 4.
func expertProgram(t *testing.T) *ir.Func {
	t.Helper()
	b := ir.NewBuilder("experts")
	param := func(name string, d array.DType, shape ...int) *ir.Value {
		return b.Param(name, ir.Type{DType: d, Shape: shape})
	}
	x, choice, weight := param(
		"x",
		array.F32,
		5,
		3,
	), param(
		"choice",
		array.I32,
		5,
		2,
	), param(
		"weight",
		array.F32,
		5,
		2,
	)
	gateUp, down := param("gate_up", array.F32, 6, 8, 3), param("down", array.F32, 6, 3, 4)
	gates := op.Reshape(gateUp, 6, 2, 4, 3)
	y := op.Experts(op.Experts(x, choice, weight, gates, down), choice, weight, gates, down)
	out := append([]*ir.Value{y}, op.GradOnce([]*ir.Value{op.Sum(y)}, nil, []*ir.Value{x, gateUp, down})...)
	f, err := b.Build(out...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPieces: of experts that are away only those come in that rows chose, one by one, and the results have
// the same bits; the arena has no room for them, and what a store cannot read ends the run with its error.
func TestPieces(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	f := expertProgram(t)
	args := make([]array.Array, 5)
	for i, v := range f.Params() {
		args[i] = array.New(v.DType(), v.Shape()...)
		for k := range args[i].Len() {
			args[i].Set(k, float64((k*7+i*3)%11)/7-0.6)
		}
	}
	for k, e := range []int32{1, 4, 4, 1, 1, -1, 4, 1, 1, 4} {
		array.Data[int32](args[1])[k] = e
	}
	whole, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := whole.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	e, err := cpu.NewOffloadPlan(f, cpu.Options{}, cpu.Offloaded{Params: []int{3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := e.Memory().Arena, whole.Memory().Arena; a > b {
		t.Errorf("the arena has %d bytes, with experts in memory %d", a, b)
	}
	s := &shelf{at: map[int]array.Array{3: args[3], 4: args[4]}}
	arena := array.New(array.U8, e.Memory().Arena).Bytes()
	for range 3 { // later runs fetch what was asked for before
		out := make([]array.Array, len(want))
		for i, a := range want {
			out[i] = array.New(a.DType(), a.Shape()...)
		}
		given := slices.Clone(args)
		given[3], given[4] = array.Array{}, array.Array{}
		if err := e.RunOver(d, arena, given, out, s); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !reflect.DeepEqual(out[i].Bytes(), want[i].Bytes()) {
				t.Errorf("result %d differs", i)
			}
		}
	}
	if len(s.gets) > 0 {
		t.Errorf("parameters %v came whole", s.gets)
	}
	for _, p := range s.parts {
		if p[1] != 1 && p[1] != 4 {
			t.Errorf("expert %d of parameter %d came: nobody chose it", p[1], p[0])
		}
	}
	given := slices.Clone(args)
	given[3], given[4] = array.Array{}, array.Array{}
	if err := e.RunOver(d, arena, given, want, broken{s}); !errors.Is(err, errBroken) {
		t.Errorf("a store that fails: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{ *shelf }

func (broken) Part(int, int, []byte) error { return errBroken }
