package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// comparison is embedded by ops that compare two operands of one dtype, broadcast together. False is less
// than true.
type comparison struct{}

func (comparison) Infer(in []Type) ([]Type, error) {
	if err := wantSame(in, 2); err != nil {
		return nil, err
	}
	shape, err := broadcastShapes(in[0].Shape, in[1].Shape)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: array.Bool, Shape: shape}}, nil
}

func (comparison) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil, nil} }
func (comparison) NoGradient() string              { return "its result is a truth value" }
func (comparison) Rule(in []Type) mesh.Rule        { return broadcastRule(in) }

func (comparison) Work(in, out []Type) Work {
	return Work{Flops: float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (comparison) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7), f32(5, 7)}},
		{In: []Arg{f32(5, 1, 7), f32(6, 1)}},
		{In: []Arg{i32Below(4, 5, 7), i32Below(4)}},
		{In: []Arg{bools(5, 7), bools(7)}},
	}
}

// ordered lists the element types that are compared; booleans are compared as bytes.
type ordered interface {
	float32 | float64 | int64 | int32 | uint8
}

// compareKernels holds a comparison kernel for each element type.
type compareKernels struct {
	f32 func(dst []bool, x, y []float32)
	f64 func(dst []bool, x, y []float64)
	i64 func(dst []bool, x, y []int64)
	i32 func(dst []bool, x, y []int32)
	u8  func(dst []bool, x, y []uint8)
}

func (k compareKernels) run(env *Env, in, out []array.Array) {
	switch in[0].DType() {
	case array.F32:
		zip2(env, out[0], in[0], in[1], k.f32)
	case array.F64:
		zip2(env, out[0], in[0], in[1], k.f64)
	case array.I64:
		zip2(env, out[0], in[0], in[1], k.i64)
	case array.I32:
		zip2(env, out[0], in[0], in[1], k.i32)
	default:
		zip2(env, out[0], asBytes(in[0]), asBytes(in[1]), k.u8)
	}
}

// asBytes returns booleans as the bytes 0 and 1.
func asBytes(a array.Array) array.Array { return array.View(array.U8, a.Shape(), a.Bytes()) }

// bit returns a boolean as a number, in a form that compiles without a branch.
func bit(b bool) uint8 {
	var n uint8
	if b {
		n = 1
	}
	return n
}

// emitComparison broadcasts the operands to the result's shape and writes a comparison of them.
func emitComparison(w *hlo.Writer, direction string, in []hlo.Ref, out Type) []hlo.Ref {
	return []hlo.Ref{emitCompare(w, direction, emitBroadcast(w, in[0], out), emitBroadcast(w, in[1], out))}
}

// emitCompare writes a comparison of operands of one type; direction is EQ, NE, GE, GT, LE or LT.
func emitCompare(w *hlo.Writer, direction string, x, y hlo.Ref) hlo.Ref {
	return w.Compare(direction, x, y)
}
