package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Tanh returns the hyperbolic tangent of each element.
func Tanh(x *Tensor) *Tensor { return apply1(tanh{}, x) }

type tanh struct{ unary }

func (tanh) Name() string { return "tanh" }

func (tanh) VJP(_, y, dy []*Tensor) []*Tensor {
	return []*Tensor{Mul(dy[0], Sub(Const(y[0], 1), Square(y[0])))}
}

func (tanh) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Tanh[float32], kernel.Tanh[float64])
}

func (tanh) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Tanh(in[0]) }

func (tanh) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("tanh", "", in[0].Type, in[0])}
}
