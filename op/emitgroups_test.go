package op_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestEmitGroups: experts' products and their gradients in several blocks, with empty groups, groups of many
// blocks, and rows of none.
func TestEmitGroups(t *testing.T) {
	for _, sizes := range [][]int32{
		{300}, {130, 0, 150}, {0, 0, 300}, {1, 298, 1}, {128, 128, 44}, {0, 0, 0}, {127, 129, 0, 3}, {5, 0, 0, 290},
	} {
		b := ir.NewBuilder("groups")
		param := func(d array.DType, shape ...int) *op.Tensor {
			return b.Param("", op.Type{DType: d,
				Shape: shape})
		}
		x, w, dy := param(array.F64, 300, 3), param(array.F64, len(sizes), 3, 4), param(array.F64, 300, 4)
		n := param(array.I32, len(sizes))
		y := op.GroupedMatMul(x, w, n)
		f, err := b.Build(append(op.Grad([]*op.Tensor{y}, []*op.Tensor{dy}, []*op.Tensor{x, w}), y)...)
		if err != nil {
			t.Fatal(err)
		}
		in := append(randoms(f.Params()[:3]), array.FromSlice(sizes, len(sizes)))
		checkProgram(t, f, in, hlo.Config{})
	}
}
