package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Sigmoid returns 1/(1+e^-x) of each element.
func Sigmoid(x *Tensor) *Tensor { return apply1(sigmoid{}, x) }

type sigmoid struct{ unary }

func (sigmoid) Name() string { return "sigmoid" }

func (sigmoid) VJP(_, y, dy []*Tensor) []*Tensor {
	return []*Tensor{Mul(dy[0], Mul(y[0], Sub(Const(y[0], 1), y[0])))}
}

func (sigmoid) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Sigmoid[float32], kernel.Sigmoid[float64])
}

func (sigmoid) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Sigmoid(in[0]) }

func (sigmoid) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("logistic", "", in[0].Type, in[0])}
}
