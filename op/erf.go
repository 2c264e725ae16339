package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Erf returns the error function of each element.
func Erf(x *Tensor) *Tensor { return apply1(erf{}, x) }

type erf struct{ unary }

func (erf) Name() string { return "erf" }

func (erf) VJP(x, _, dy []*Tensor) []*Tensor {
	slope := MulScalar(Exp(Neg(Square(x[0]))), 2/math.SqrtPi)
	return []*Tensor{Mul(dy[0], slope)}
}

func (erf) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Erf[float32], kernel.Erf[float64])
}

func (erf) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Erf(in[0]) }

func (erf) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	y := emitErf(w, w.Convert(in[0], in[0].DType.Compute()))
	return []hlo.Ref{w.Convert(y, out[0].DType)}
}
