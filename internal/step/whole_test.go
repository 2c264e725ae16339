package step

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// wholePlan returns a step of one weight on one device, in two micro-batches.
func wholePlan(t testing.TB) *Plan {
	t.Helper()
	m, err := mesh.Parse("dp=1")
	if err != nil {
		t.Fatal(err)
	}
	f32 := func(shape ...int) ir.Type { return ir.Type{DType: array.F32, Shape: shape} }
	call := func(when When, name string, in []ir.Type, f func(in []*op.Tensor) []*op.Tensor) Call {
		b := ir.NewBuilder(name)
		var args []*op.Tensor
		for _, t := range in {
			args = append(args, b.Param("", t))
		}
		p, err := b.Build(f(args)...)
		if err != nil {
			t.Fatal(err)
		}
		return Call{When: when, Part: PartOn(p, m), Local: func(int) (*ir.Func, error) { return p, nil }}
	}
	part := call(OfMicro, "part", []ir.Type{f32(3), f32(3), f32(2, 3)}, func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Add(in[1], op.Mul(in[0], op.Sum(in[2], 0)))}
	})
	part.Donated = []int{1}
	update := call(AtUpdate, "update", []ir.Type{f32(3), f32(3), f32()}, func(in []*op.Tensor) []*op.Tensor {
		next := op.Sub(in[0], op.Mul(in[1], in[2]))
		return []*op.Tensor{op.Sum(next), op.Sum(in[1]), next}
	})
	update.Donated, update.Params = []int{0}, []Piece{WeightPiece(0), SumPiece(0), ScalarPiece(0)}
	update.Results = []Piece{ReportPiece(0), ReportPiece(1), WeightPiece(0)}
	b := ir.NewBuilder("zeros")
	none, err := b.Build(op.Full(b, array.F32, array.Shape{3}, 0))
	if err != nil {
		t.Fatal(err)
	}
	zeros := Call{When: AtBegin, Part: PartOn(none, m), Local: func(int) (*ir.Func, error) { return none, nil }}
	zeros.Results = []Piece{SumPiece(0)}
	calls := []Call{zeros}
	for micro := range 2 {
		x := part
		x.Micro, x.Params, x.Results = micro, []Piece{WeightPiece(0), SumPiece(0), InputPiece(micro, 0)},
			zeros.Results
		calls = append(calls, x)
	}
	whole := Layouts{Use: mesh.Whole(1), Rest: mesh.Whole(1), Sum: mesh.Whole(1), Slot: mesh.Whole(1)}
	p, err := NewWhole(WholeConfig{Mesh: m, Inputs: [][]ir.Type{{f32(2, 3)}}, Variant: []int{0, 0},
		Scalars: []ir.Type{f32()}, Calls: append(calls, update),
		Weights: []State{{Weight: Weight{Name: "w", Type: f32(3), Layouts: whole}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWholePlan: whole programs are a plan that prints and parses; it cannot be started as stages are.
func TestWholePlan(t *testing.T) {
	p := wholePlan(t)
	text := p.String()
	back, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := back.String(); again != text {
		t.Error(difference(text, again))
	}
	if got, want := back.Memory(0), (Memory{Weights: 12, Sums: 12}); got.Weights != want.Weights ||
		got.Sums != want.Sums || got != p.Memory(0) {
		t.Errorf("memory is %+v, want %+v as of %+v", got, p.Memory(0), want)
	}
	for _, bad := range [][2]string{
		{"plan train whole", "plan train"}, {"  begin run 0", "  end run 0"},
		{"input 0 0 : f32[2,3]", "input 2 0 : f32[2,3]"},
		{"load %", "load %9"},
	} {
		if _, err := Parse(strings.Replace(text, bad[0], bad[1], 1)); err == nil {
			t.Errorf("%q in place of %q is read", bad[1], bad[0])
		}
	}
	if _, err := NewWhole(WholeConfig{}); err == nil {
		t.Error("a step of no programs is planned")
	}
}
