package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Sign returns −1, 0 or 1 with the sign of each element; NaN becomes 0.
func Sign(x *Tensor) *Tensor { return apply1(sign{}, x) }

type sign struct {
	numeric
	constantAlmostEverywhere
}

func (sign) Name() string { return "sign" }

func (sign) Eval(env *Env, in, out []array.Array) {
	kernels1{
		each1(signOf[float32]), each1(signOf[float64]),
		each1(signOf[int64]), each1(signOf[int32]), each1(signOf[uint8]),
	}.run(env, in, out)
}

func signOf[T ordered](x T) T {
	return T(int8(bit(x > 0)) - int8(bit(x < 0)))
}

func (sign) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	t := in[0].Type
	if t.DType == array.U8 { // StableHLO's sign takes signed numbers only
		return []hlo.Ref{w.Op("minimum", "", t, in[0], w.Constant(t, 1))}
	}
	y := w.Op("sign", "", t, in[0])
	if !t.DType.IsFloat() {
		return []hlo.Ref{y}
	}
	// StableHLO keeps NaN.
	return []hlo.Ref{w.Op("select", "", t, emitCompare(w, "EQ", in[0], in[0]), y, w.Constant(t, 0))}
}
