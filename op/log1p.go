package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Log1p returns the natural logarithm of one plus each element, accurate near zero.
func Log1p(x *Tensor) *Tensor { return apply1(log1p{}, x) }

type log1p struct{ unary }

func (log1p) Name() string { return "log1p" }

func (log1p) VJP(x, _, dy []*Tensor) []*Tensor {
	return []*Tensor{Div(dy[0], AddScalar(x[0], 1))}
}

func (log1p) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Log1p[float32], kernel.Log1p[float64])
}

func (log1p) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Log1p(in[0]) }

func (log1p) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("log_plus_one", "", in[0].Type, in[0])}
}

func (log1p) Samples() []Sample { return oneSample(f32In(-0.7, 3, 5, 7)) }
