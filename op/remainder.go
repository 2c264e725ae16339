package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Mod returns the remainder of integers x divided by y, broadcast together. It has the sign of y; if y is
// zero it is x.
func Mod(x, y *Tensor) *Tensor { return apply1(remainder{}, x, y) }

type remainder struct{ arith }

func (remainder) Name() string       { return "remainder" }
func (remainder) NoGradient() string { return "it is defined on integers" }

func (o remainder) Infer(in []Type) ([]Type, error) {
	for _, t := range in {
		if !t.DType.IsInt() {
			return nil, fmt.Errorf("want integers: got %v", t)
		}
	}
	return o.arith.Infer(in)
}

func (remainder) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil, nil} }

func (remainder) Eval(env *Env, in, out []array.Array) {
	kernels2{
		i64: each2(modInt[int64]), i32: each2(modInt[int32]), u8: each2(modInt[uint8]),
	}.run(env, in, out)
}

func modInt[T integer](x, y T) T {
	if y == 0 {
		return x
	}
	r := x % y
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

func (remainder) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	t := hloType(out[0])
	x, y := emitBroadcast(w, in[0], out[0]), emitBroadcast(w, in[1], out[0])
	r := w.Op("remainder", "", t, x, y)
	if out[0].DType == array.U8 {
		return []hlo.Ref{r}
	}
	// StableHLO's remainder has the sign of x.
	zero, truth := w.Constant(t, 0), hlo.Type{DType: array.Bool, Shape: t.Shape}
	apart := emitCompare(w, "NE", emitCompare(w, "LT", r, zero), emitCompare(w, "LT", y, zero))
	apart = w.Op("and", "", truth, apart, w.Op("and", "", truth, emitCompare(w, "NE", r, zero), emitCompare(w,
		"NE", y, zero)))
	return []hlo.Ref{w.Op("select", "", t, apart, w.Op("add", "", t, r, y), r)}
}

func (remainder) Samples() []Sample {
	return []Sample{
		{In: []Arg{i32Below(9, 5, 7), i32Below(4, 7)}},
		{In: []Arg{i32Below(9, 5, 7), i32Below(4)}},
	}
}
