package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Reciprocal returns 1/x.
func Reciprocal(x *Tensor) *Tensor { return apply1(reciprocal{}, x) }

type reciprocal struct{ unary }

func (reciprocal) Name() string { return "reciprocal" }

func (reciprocal) VJP(_, y, dy []*Tensor) []*Tensor { return []*Tensor{Neg(Mul(dy[0], Square(y[0])))} }

func (reciprocal) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Reciprocal[float32], kernel.Reciprocal[float64])
}

func (reciprocal) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Reciprocal(in[0]) }

func (reciprocal) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("divide", "", in[0].Type, w.Constant(in[0].Type, 1), in[0])}
}

func (reciprocal) Samples() []Sample { return oneSample(f32In(0.3, 3, 5, 7)) }
