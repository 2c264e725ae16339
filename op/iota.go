package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Iota returns each element's index along dim; a negative dim counts from the last.
func Iota(s Scope, dtype array.DType, shape array.Shape, dim int) *Tensor {
	return s.Apply(iotaOp{DType: dtype, Shape: shape, Dim: normDim(len(shape), dim)}, nil)[0]
}

type iotaOp struct {
	source
	DType array.DType
	Shape []int
	Dim   int
	// Offset is the first number.
	Offset int
}

func (iotaOp) Name() string { return "iota" }

func (o iotaOp) Infer(in []Type) ([]Type, error) {
	if o.Dim < 0 || o.Dim >= len(o.Shape) {
		return nil, fmt.Errorf("dim %d is not a dim of %v", o.Dim, array.Shape(o.Shape))
	}
	if o.DType == array.Bool {
		return nil, fmt.Errorf("want a dtype of numbers: got %v", o.DType)
	}
	return inferSource(in, o.DType, o.Shape)
}

func (o iotaOp) Rule([]Type) mesh.Rule { return mesh.Rule("->" + factors(0, len(o.Shape))) }

func (o iotaOp) Localize(at *Place) (Op, error) {
	o.Shape = at.OutShape(0)
	o.Offset += at.OutRange(0, o.Dim).Start
	return o, nil
}

func (o iotaOp) Eval(env *Env, _, out []array.Array) {
	if out[0].Len() == 0 {
		return
	}
	count := make([]int64, o.Shape[o.Dim])
	for i := range count {
		count[i] = int64(o.Offset + i)
	}
	line := array.New(o.DType, len(count))
	castTo(line, count, 0)
	strides := make([]int, len(o.Shape))
	strides[o.Dim] = 1
	moveStrided(env, o.Shape, whole(out[0]), strided{Array: line, strides: strides})
}

func (o iotaOp) Emit(w *hlo.Writer, _ []hlo.Ref, out []Type) []hlo.Ref {
	t := hloType(out[0])
	count := emitIota(w, t, o.Dim)
	if o.Offset != 0 {
		count = w.Op("add", "", t, count, w.Constant(t, float64(o.Offset)))
	}
	return []hlo.Ref{count}
}

func emitIota(w *hlo.Writer, t hlo.Type, dim int) hlo.Ref {
	return w.Op("iota", fmt.Sprintf("iota_dimension = %d : i64", dim), t)
}

func (iotaOp) Samples() []Sample {
	return []Sample{
		{Op: iotaOp{DType: array.I64, Shape: []int{5, 7}, Dim: 1}},
		{Op: iotaOp{DType: array.F32, Shape: []int{5, 7}, Dim: 0}},
		{Op: iotaOp{DType: array.BF16, Shape: []int{9}}},
		{Op: iotaOp{DType: array.I32, Shape: []int{2, 9}, Dim: 1, Offset: 5}},
	}
}
