package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// Cast returns x converted to another dtype. Floats become integers by truncation; numbers become true if
// they are not zero.
func Cast(x *Tensor, dtype array.DType) *Tensor {
	if x.Err() == nil && x.DType() == dtype {
		return x
	}
	return apply1(cast{DType: dtype}, x)
}

// CastsTo returns the dtype that an op converts its operand to, and whether it is a cast.
func CastsTo(o ir.Op) (array.DType, bool) {
	c, ok := o.(cast)
	return c.DType, ok
}

type cast struct {
	mover
	DType array.DType
}

func (cast) Name() string { return "cast" }

// Linear applies between floats only.
func (o cast) Linear() [][]int {
	if o.DType.IsFloat() {
		return [][]int{{0}}
	}
	return nil
}

func (o cast) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || o.DType == array.Invalid {
		return nil, fmt.Errorf("want 1 operand and a dtype: got %d and %v", len(in), o.DType)
	}
	return []Type{{DType: o.DType, Shape: in[0].Shape}}, nil
}

func (o cast) VJP(in, _, dy []*Tensor) []*Tensor {
	if !in[0].DType().IsFloat() || !o.DType.IsFloat() {
		return []*Tensor{nil}
	}
	return []*Tensor{Cast(dy[0], in[0].DType())}
}

func (cast) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 1, 1) }

func (cast) Eval(env *Env, in, out []array.Array) { castInto(env, out[0], in[0]) }

// castInto converts the elements of src to the dtype of dst, which may be the same.
func castInto(env *Env, dst, src array.Array) {
	if dst.DType() == src.DType() {
		copyBytes(env, dst, src)
		return
	}
	env.split(dst.Len(), func(lo, hi int) {
		if !castHalf(dst, src, lo, hi) {
			castFrom(dst, src, lo, hi)
		}
	})
}

// castHalf converts between float32 and 16-bit floats with dedicated kernels; it reports whether it did.
func castHalf(dst, src array.Array, lo, hi int) bool {
	switch {
	case dst.DType() == array.F32 && src.DType() == array.BF16:
		kernel.BF16sToF32(array.Data[float32](dst)[lo:hi], array.Raw[uint16](src)[lo:hi])
	case dst.DType() == array.F32 && src.DType() == array.F16:
		kernel.F16sToF32(array.Data[float32](dst)[lo:hi], array.Raw[uint16](src)[lo:hi])
	case dst.DType() == array.BF16 && src.DType() == array.F32:
		kernel.F32sToBF16(array.Raw[uint16](dst)[lo:hi], array.Data[float32](src)[lo:hi])
	case dst.DType() == array.F16 && src.DType() == array.F32:
		kernel.F32sToF16(array.Raw[uint16](dst)[lo:hi], array.Data[float32](src)[lo:hi])
	default:
		return false
	}
	return true
}

// castFrom converts elements lo to hi, given the dtype of src.
func castFrom(dst, src array.Array, lo, hi int) {
	switch src.DType() {
	case array.F64:
		castTo(dst, array.Data[float64](src)[lo:hi], lo)
	case array.F32:
		castTo(dst, array.Data[float32](src)[lo:hi], lo)
	case array.I64:
		castTo(dst, array.Data[int64](src)[lo:hi], lo)
	case array.I32:
		castTo(dst, array.Data[int32](src)[lo:hi], lo)
	case array.I16:
		castTo(dst, array.Data[int16](src)[lo:hi], lo)
	case array.U8:
		castTo(dst, array.Data[uint8](src)[lo:hi], lo)
	case array.Bool:
		castTo(dst, array.Raw[uint8](src)[lo:hi], lo)
	default: // 16-bit floats
		wide := make([]float32, hi-lo)
		for i := range wide {
			wide[i] = float32(src.At(lo + i))
		}
		castTo(dst, wide, lo)
	}
}

type number interface {
	float64 | float32 | int64 | int32 | int16 | uint8
}

// castTo writes xs as elements of dst's dtype, starting at element lo.
func castTo[T number](dst array.Array, xs []T, lo int) {
	switch dst.DType() {
	case array.F64:
		convert(array.Data[float64](dst)[lo:], xs)
	case array.F32:
		convert(array.Data[float32](dst)[lo:], xs)
	case array.I64:
		convert(array.Data[int64](dst)[lo:], xs)
	case array.I32:
		convert(array.Data[int32](dst)[lo:], xs)
	case array.I16:
		convert(array.Data[int16](dst)[lo:], xs)
	case array.U8:
		convert(array.Data[uint8](dst)[lo:], xs)
	case array.Bool:
		out := array.Data[bool](dst)[lo:]
		for i, x := range xs {
			out[i] = x != 0
		}
	case array.BF16:
		out := array.Data[array.BFloat16](dst)[lo:]
		for i, x := range xs {
			out[i] = array.ToBFloat16(float32(x))
		}
	case array.F16:
		out := array.Data[array.Float16](dst)[lo:]
		for i, x := range xs {
			out[i] = array.ToFloat16(float32(x))
		}
	}
}

func convert[U, T number](dst []U, xs []T) {
	for i, x := range xs {
		dst[i] = U(x)
	}
}

// Loop supports casts between booleans and floats, both of which are stored in lanes.
func (o cast) Loop(in, _ []Type) (Loop, bool) {
	return Loop{Kind: LoopMap, Lane: func(b *lane.Builder, x []lane.Arg) lane.Arg {
		switch {
		case in[0].DType != array.Bool && o.DType != array.Bool: // narrower types are rounded when they are stored
			return x[0]
		case o.DType == array.Bool:
			return b.Compare(lane.NotEqual, x[0], b.Number(0))
		}
		return b.And(x[0], b.Number(1))
	}}, true
}

func (cast) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("convert", "", hloType(out[0]), in[0])}
}

func (cast) Samples() []Sample {
	return []Sample{
		{Op: cast{DType: array.F64}, In: []Arg{f32(5, 7)}},
		{Op: cast{DType: array.I32}, In: []Arg{f32In(-9, 9, 5, 7)}},
		{Op: cast{DType: array.F32}, In: []Arg{i32Below(9, 5, 7)}},
	}
}
