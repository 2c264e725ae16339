package spmd_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestUncombined: a product's sums can wait behind casts and cuts, unless something else reads them on the
// way or a spec splits by their axis.
func TestUnreduced(t *testing.T) {
	m, err := mesh.Parse("dp=2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, spec string
		// grad is what is summed up, made of a product whose sums are pending; beside is what else the program
		// returns.
		grad   func(product *op.Tensor) (grad, beside *op.Tensor)
		waits  bool
		within int // values that have to lie so, the grad included
	}{
		{"as it is", "@[_,_]", func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return x, nil }, true, 1},
		{"cast", "@[_,_]", func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return op.Cast(x, array.F32), nil }, true,
			2},
		{"cut and cast", "@[_,_]", func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
			return op.Cast(op.Narrow(x, 0, 0,
				2), array.F32), nil
		}, true, 3},
		{"split by the axis", "@[dp,_]", func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
			return op.Cast(x, array.F32),
				nil
		}, false, 1},
		{"read by something else", "@[_,_]", func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
			return op.Cast(x,
				array.F32), op.Exp(x)
		}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ir.NewBuilder("main")
			x, y := b.Param("x", ir.Type{DType: array.BF16, Shape: array.Shape{4, 8}}), b.Param("y",
				ir.Type{DType: array.BF16, Shape: array.Shape{8, 6}})
			grad, beside := c.grad(op.MatMul(x, y))
			results := []*op.Tensor{op.Add(b.Param("sum", grad.Type()), grad)}
			if beside != nil {
				results = append(results, beside)
			}
			f, err := b.Build(results...)
			if err != nil {
				t.Fatal(err)
			}
			specs := make([]mesh.Spec, f.NumValues())
			for i := range specs {
				specs[i] = mesh.Whole(2)
			}
			specs[0], specs[1] = mesh.Split(nil, mesh.On("dp")), mesh.Split(mesh.On("dp"), nil)
			p, err := spmd.Partition(f, specs, m, spmd.Config{})
			if err != nil {
				t.Fatal(err)
			}
			spec, err := mesh.ParseSpec(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			layout, inner := p.Unreduced([]*ir.Value{f.Results()[0].Node().In()[1]}, []mesh.Spec{spec})
			if got := len(layout[0].Partial) == 1; got != c.waits || len(inner) != c.within ||
				!layout[0].With().Equal(spec) {
				t.Errorf("got %v and %v within", layout[0], inner)
			}
		})
	}
}
