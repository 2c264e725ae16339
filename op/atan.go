package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
)

// Atan returns the arctangent of each element, between -π/2 and π/2.
func Atan(x *Tensor) *Tensor { return apply1(atan{}, x) }

type atan struct{ unary }

func (atan) Name() string { return "atan" }

func (atan) VJP(x, _, dy []*Tensor) []*Tensor {
	return []*Tensor{Div(dy[0], AddScalar(Square(x[0]), 1))}
}

func (atan) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Atan[float32], kernel.Atan[float64])
}

func (atan) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	t := in[0].Type
	return []hlo.Ref{w.Op("atan2", "", t, in[0], w.Constant(t, 1))}
}
