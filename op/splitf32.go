package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// SplitF32 splits f32 numbers into upper, x rounded to bf16, and lower, the 16 bits of their difference.
// JoinF32 restores x exactly, with one exception: a number half way between two bf16 numbers that is rounded
// towards zero becomes its f32 neighbour towards zero, because lower has one value too few.
func SplitF32(x *Tensor) (upper, lower *Tensor) {
	r := ir.Apply(splitF32{}, x)
	return r[0], r[1]
}

type splitF32 struct{ mover }

func (splitF32) Name() string                    { return "split_f32" }
func (splitF32) NumResults(int) int              { return 2 }
func (splitF32) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (splitF32) NoGradient() string              { return "it takes bits apart" }
func (splitF32) Rule(in []Type) mesh.Rule        { return sameRule(len(in[0].Shape), 1, 2) }

func (splitF32) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || in[0].DType != array.F32 {
		return nil, fmt.Errorf("want 1 operand of f32: got %v", in)
	}
	return []Type{{DType: array.BF16, Shape: in[0].Shape}, {DType: array.I16, Shape: in[0].Shape}}, nil
}

func (splitF32) Eval(env *Env, in, out []array.Array) {
	upper, lower, x := array.Raw[uint16](out[0]), array.Data[int16](out[1]), array.Data[float32](in[0])
	env.split(len(x), func(lo, hi int) { kernel.F32sToHalves(upper[lo:hi], lower[lo:hi], x[lo:hi]) })
}

// Emit takes the bits of the rounded numbers, because XLA may simplify rounding and widening to the original
// number. If XLA computes the rounding twice, for upper and for lower, with different results, the clamp
// keeps the restored number close to both.
func (splitF32) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	upper := w.Convert(in[0], array.BF16)
	bits := hlo.Type{DType: array.I32, Shape: in[0].Shape}
	between := w.Op("subtract", "", bits, w.Bits(in[0], array.I32), emitUpperBits(w, upper))
	between = w.Op("clamp", "", bits, w.Constant(bits, math.MinInt16), between, w.Constant(bits, math.MaxInt16))
	return []hlo.Ref{upper, w.Convert(between, array.I16)}
}

// emitUpperBits writes the bits of bf16 numbers as the upper bits of f32, in i32.
func emitUpperBits(w *hlo.Writer, upper hlo.Ref) hlo.Ref {
	wide := w.Convert(w.Bits(upper, array.I16), array.I32)
	return w.Op("shift_left", "", wide.Type, wide, w.Constant(wide.Type, 16))
}

func (splitF32) Samples() []Sample { return oneSample(f32(5, 7)) }
