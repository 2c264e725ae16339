package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Softplus returns log(1+e^x) of each element, a smooth ReLU.
func Softplus(x *Tensor) *Tensor { return apply1(softplus{}, x) }

type softplus struct{ unary }

func (softplus) Name() string { return "softplus" }

func (softplus) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], Sigmoid(x[0]))} }

func (softplus) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Softplus[float32], kernel.Softplus[float64])
}

func (softplus) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Softplus(in[0]) }

func (softplus) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	// max(x,0) + log(1+e^-|x|) does not overflow.
	t := in[0].Type
	tail := w.Op("exponential", "", t, w.Op("negate", "", t, w.Op("abs", "", t, in[0])))
	top := w.Op("maximum", "", t, in[0], w.Constant(t, 0))
	return []hlo.Ref{w.Op("add", "", t, top, w.Op("log_plus_one", "", t, tail))}
}
