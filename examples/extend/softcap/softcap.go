// Package softcap is two ops of another module than Galley's: one with a kernel, a gradient and StableHLO of
// its own, and one that is defined by other ops.
package softcap

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

func init() {
	for _, o := range []op.Op{softcap{}, rowScale{}} {
		if err := op.Register(o); err != nil {
			panic(err)
		}
	}
}

// Softcap keeps each element between -limit and limit: limit·tanh(x/limit).
func Softcap(x *op.Tensor, limit float64) *op.Tensor { return op.Apply(softcap{Limit: limit}, x)[0] }

// softcap's fields are its attributes: they print and parse.
type softcap struct{ Limit float64 }

func (softcap) Name() string { return "example_softcap" }

func (o softcap) Infer(in []op.Type) ([]op.Type, error) {
	if len(in) != 1 || !in[0].DType.IsFloat() {
		return nil, fmt.Errorf("want one float operand: got %v", in)
	}
	if !(o.Limit > 0) {
		return nil, fmt.Errorf("want a limit above 0: got %v", o.Limit)
	}
	return in, nil
}

// VJP returns dy·(1 − (y/limit)²), of ops, so that there is a second derivative.
func (o softcap) VJP(_, y, dy []*op.Tensor) []*op.Tensor {
	u := op.Div(y[0], op.Const(y[0], o.Limit))
	return []*op.Tensor{op.Mul(dy[0], op.Sub(op.Const(u, 1), op.Mul(u, u)))}
}

// Rule: all dims are factors of their own, and any of them may be split.
func (softcap) Rule(in []op.Type) mesh.Rule { return op.SameRule(len(in[0].Shape), 1, 1) }

func (softcap) Work(in, out []op.Type) op.Work {
	return op.Work{Flops: 10 * float64(out[0].Shape.Len()), Bytes: float64(in[0].Bytes() + out[0].Bytes())}
}

func (o softcap) Eval(env *op.Env, in, out []array.Array) {
	switch out[0].DType() {
	case array.F32:
		eval[float32](env, o.Limit, in[0], out[0])
	case array.F64:
		eval[float64](env, o.Limit, in[0], out[0])
	}
}

func eval[T float32 | float64](env *op.Env, limit float64, in, out array.Array) {
	x, y := array.Data[T](in), array.Data[T](out)
	env.Split(len(y), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			y[i] = T(limit * math.Tanh(float64(x[i])/limit))
		}
	})
}

// InPlace: an element is read before it is written.
func (softcap) InPlace() []int { return []int{0} }

func (o softcap) Emit(w *op.Writer, in []op.Ref, _ []op.Type) []op.Ref {
	t := in[0].Type
	limit := w.Constant(t, o.Limit)
	return []op.Ref{w.Op("multiply", "", t, limit, w.Op("tanh", "", t, w.Op("divide", "", t, in[0], limit)))}
}

func (softcap) Samples() []op.Sample {
	return []op.Sample{{Op: softcap{Limit: 1.5}, In: []op.Arg{{Type: op.Type{DType: array.F32,
		Shape: array.Shape{5, 7}}}}}}
}
