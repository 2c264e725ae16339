package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// JoinF32 is the inverse of SplitF32.
func JoinF32(upper, lower *Tensor) *Tensor { return apply1(joinF32{}, upper, lower) }

type joinF32 struct{ mover }

func (joinF32) Name() string                    { return "join_f32" }
func (joinF32) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil, nil} }
func (joinF32) NoGradient() string              { return "it puts bits together" }
func (joinF32) Rule(in []Type) mesh.Rule        { return sameRule(len(in[0].Shape), 2, 1) }

func (joinF32) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || in[0].DType != array.BF16 || in[1].DType != array.I16 || !in[0].Shape.Equal(in[1].Shape) {
		return nil, fmt.Errorf("want operands of bf16 and i16, of one shape: got %v", in)
	}
	return []Type{{DType: array.F32, Shape: in[0].Shape}}, nil
}

func (joinF32) Eval(env *Env, in, out []array.Array) {
	dst, upper, lower := array.Data[float32](out[0]), array.Raw[uint16](in[0]), array.Data[int16](in[1])
	env.split(len(dst), func(lo, hi int) { kernel.HalvesToF32s(dst[lo:hi], upper[lo:hi], lower[lo:hi]) })
}

func (joinF32) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	upper := emitUpperBits(w, in[0])
	return []hlo.Ref{w.Bits(w.Op("add", "", upper.Type, upper, w.Convert(in[1], array.I32)), array.F32)}
}

func (joinF32) Samples() []Sample {
	shape := array.Shape{5, 7}
	return oneSample(Arg{Type: Type{DType: array.BF16, Shape: shape}},
		Arg{Type: Type{DType: array.I16, Shape: shape}, Low: math.MinInt16, High: math.MaxInt16})
}
