package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Exp returns e to the power of each element.
func Exp(x *Tensor) *Tensor { return apply1(exp{}, x) }

type exp struct{ unary }

func (exp) Name() string { return "exp" }

func (exp) VJP(_, y, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], y[0])} }

func (exp) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Exp[float32], kernel.Exp[float64])
}

func (exp) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Exp(in[0]) }

func (exp) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("exponential", "", in[0].Type, in[0])}
}
