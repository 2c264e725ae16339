package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Clamp limits each element to [low, high]; an infinite bound is no bound. NaN stays NaN. The gradient passes
// where the element was within the bounds. Integers are limited to the integers within the bounds.
func Clamp(x *Tensor, low, high float64) *Tensor {
	if x.Err() != nil || !x.DType().IsInt() {
		return apply1(clamp{Low: low, High: high}, x)
	}
	low, high = math.Ceil(low), math.Floor(high)
	if !(low <= high) {
		return refuse(x, "clamp", "bounds are out of order: got low %g and high %g", low, high)
	}
	if low > lowest(x.DType()) {
		x = Maximum(x, Const(x, low))
	}
	if high < highest(x.DType()) {
		x = Minimum(x, Const(x, high))
	}
	return x
}

type clamp struct {
	unary
	Low, High float64
}

func (clamp) Name() string { return "clamp" }

func (o clamp) Infer(in []Type) ([]Type, error) {
	if !(o.Low <= o.High) {
		return nil, fmt.Errorf("bounds are out of order: got low %g and high %g", o.Low, o.High)
	}
	return o.unary.Infer(in)
}

func (o clamp) VJP(in, _, dy []*Tensor) []*Tensor {
	x := in[0]
	inside := LogicalAnd(GreaterEqual(x, Const(x, o.Low)), LessEqual(x, Const(x, o.High)))
	return []*Tensor{Where(inside, dy[0], Const(x, 0))}
}

func (o clamp) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, clampBetween(float32(o.Low), float32(o.High)), clampBetween(o.Low, o.High))
}

func clampBetween[T floats](low, high T) func(dst, x []T) {
	return func(dst, x []T) {
		for i := range dst {
			dst[i] = min(max(x[i], low), high)
		}
	}
}

func (o clamp) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	scalar := hlo.Type{DType: in[0].DType}
	return []hlo.Ref{w.Op("clamp", "", in[0].Type, w.Constant(scalar, o.Low), in[0], w.Constant(scalar, o.High))}
}

func (clamp) Samples() []Sample {
	return []Sample{
		{Op: clamp{Low: -0.5, High: 0.8}, In: []Arg{f32(5, 7)}},
		{Op: clamp{Low: math.Inf(-1), High: 0.3}, In: []Arg{f32(5, 7)}},
		{Op: clamp{Low: 0, High: math.Inf(1)}, In: []Arg{f32(5, 7)}},
	}
}
