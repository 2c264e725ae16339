package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Expm1 returns e to the power of each element minus one, accurate near zero.
func Expm1(x *Tensor) *Tensor { return apply1(expm1{}, x) }

type expm1 struct{ unary }

func (expm1) Name() string { return "expm1" }

func (expm1) VJP(_, y, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], AddScalar(y[0], 1))} }

func (expm1) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Expm1[float32], kernel.Expm1[float64])
}

func (expm1) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Expm1(in[0]) }

func (expm1) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("exponential_minus_one", "", in[0].Type, in[0])}
}
