package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Log returns the natural logarithm of each element.
func Log(x *Tensor) *Tensor { return apply1(log{}, x) }

type log struct{ unary }

func (log) Name() string { return "log" }

func (log) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Div(dy[0], x[0])} }

func (log) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Log[float32], kernel.Log[float64])
}

func (log) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Log(in[0]) }

func (log) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("log", "", in[0].Type, in[0])}
}

func (log) Samples() []Sample { return oneSample(f32In(0.2, 4, 5, 7)) }
