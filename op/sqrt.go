package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Sqrt returns the square root of each element.
func Sqrt(x *Tensor) *Tensor { return apply1(sqrt{}, x) }

type sqrt struct{ unary }

func (sqrt) Name() string { return "sqrt" }

func (sqrt) VJP(_, y, dy []*Tensor) []*Tensor { return []*Tensor{Div(dy[0], MulScalar(y[0], 2))} }

func (sqrt) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Sqrt[float32], kernel.Sqrt[float64])
}

func (sqrt) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Sqrt(in[0]) }

func (sqrt) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("sqrt", "", in[0].Type, in[0])}
}

func (sqrt) Samples() []Sample { return oneSample(f32In(0.2, 4, 5, 7)) }
