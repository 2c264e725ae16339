package softcap

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// RowScale divides each row by 1 plus the sum of its absolute values.
func RowScale(x *op.Tensor) *op.Tensor { return op.Apply(rowScale{}, x)[0] }

// rowScale is defined by other ops, of which its gradient and its StableHLO follow; its own kernel is faster.
type rowScale struct{}

func (rowScale) Name() string { return "example_row_scale" }

func (rowScale) Infer(in []op.Type) ([]op.Type, error) {
	if len(in) != 1 || !in[0].DType.IsFloat() || len(in[0].Shape) != 2 {
		return nil, fmt.Errorf("want one float operand of rows and columns: got %v", in)
	}
	return in, nil
}

func (rowScale) Decompose(in []*op.Tensor) []*op.Tensor {
	sum := op.Unsqueeze(op.Sum(op.Abs(in[0]), 1), 1)
	return []*op.Tensor{op.Div(in[0], op.Add(sum, op.Const(sum, 1)))}
}

func (o rowScale) VJP(in, _, dy []*op.Tensor) []*op.Tensor { return op.VJPByParts(o, in, dy) }

// Rule: rows may be split, and a device needs all columns of its rows.
func (rowScale) Rule([]op.Type) mesh.Rule { return "rc*->rc*" }

func (rowScale) Work(in, out []op.Type) op.Work {
	return op.Work{Flops: 3 * float64(out[0].Shape.Len()), Bytes: float64(in[0].Bytes() + out[0].Bytes())}
}

func (rowScale) Eval(_ *op.Env, in, out []array.Array) {
	switch out[0].DType() {
	case array.F32:
		scaleRows[float32](in[0], out[0])
	case array.F64:
		scaleRows[float64](in[0], out[0])
	}
}

func scaleRows[T float32 | float64](in, out array.Array) {
	x, y, width := array.Data[T](in), array.Data[T](out), in.Shape()[1]
	for row := range in.Shape()[0] {
		sum := 1.0
		for _, v := range x[row*width:][:width] {
			sum += math.Abs(float64(v))
		}
		for i, v := range x[row*width:][:width] {
			y[row*width+i] = T(float64(v) / sum)
		}
	}
}

func (o rowScale) Emit(w *op.Writer, in []op.Ref, out []op.Type) []op.Ref {
	return op.EmitByParts(o, w, in, out)
}

func (rowScale) Samples() []op.Sample {
	return []op.Sample{{In: []op.Arg{{Type: op.Type{DType: array.F32, Shape: array.Shape{5, 7}}}}}}
}
