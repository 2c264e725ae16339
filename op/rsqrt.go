package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Rsqrt returns one over the square root of each element.
func Rsqrt(x *Tensor) *Tensor { return apply1(rsqrt{}, x) }

type rsqrt struct{ unary }

func (rsqrt) Name() string { return "rsqrt" }

func (rsqrt) VJP(_, y, dy []*Tensor) []*Tensor {
	return []*Tensor{Mul(dy[0], MulScalar(Mul(y[0], Square(y[0])), -0.5))}
}

func (rsqrt) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Rsqrt[float32], kernel.Rsqrt[float64])
}

func (rsqrt) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Rsqrt(in[0]) }

func (rsqrt) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("rsqrt", "", in[0].Type, in[0])}
}

func (rsqrt) Samples() []Sample { return oneSample(f32In(0.2, 4, 5, 7)) }
