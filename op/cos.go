package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
)

// Cos returns the cosine of each element, in radians.
func Cos(x *Tensor) *Tensor { return apply1(cos{}, x) }

type cos struct{ unary }

func (cos) Name() string { return "cos" }

func (cos) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Neg(Mul(dy[0], Sin(x[0])))} }

func (cos) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Cos[float32], kernel.Cos[float64])
}

func (cos) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("cosine", "", in[0].Type, in[0])}
}
