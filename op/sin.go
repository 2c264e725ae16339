package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
)

// Sin returns the sine of each element, in radians.
func Sin(x *Tensor) *Tensor { return apply1(sin{}, x) }

type sin struct{ unary }

func (sin) Name() string { return "sin" }

func (sin) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], Cos(x[0]))} }

func (sin) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.Sin[float32], kernel.Sin[float64])
}

func (sin) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("sine", "", in[0].Type, in[0])}
}
