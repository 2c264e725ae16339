package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// ReLU returns max(x, 0) for each element; NaN stays NaN.
func ReLU(x *Tensor) *Tensor { return apply1(relu{}, x) }

type relu struct{ unary }

func (relu) Name() string { return "relu" }

// VJP takes the sign from the result, so that the operand need not be kept. The gradient at zero is zero.
func (relu) VJP(_, y, dy []*Tensor) []*Tensor {
	zero := Const(y[0], 0)
	return []*Tensor{Where(LessEqual(y[0], zero), zero, dy[0])}
}

func (relu) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.ReLU[float32], kernel.ReLU[float64])
}

func (relu) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.ReLU(in[0]) }

func (relu) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("maximum", "", in[0].Type, in[0], w.Constant(in[0].Type, 0))}
}
