package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Abs returns the magnitude of each element; the gradient at zero is zero.
func Abs(x *Tensor) *Tensor { return apply1(abs{}, x) }

type abs struct{ numeric }

func (abs) Name() string { return "abs" }

func (abs) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], Sign(x[0]))} }

func (abs) Eval(env *Env, in, out []array.Array) {
	kernels1{
		kernel.Abs[float32], kernel.Abs[float64],
		each1(absInt[int64]), each1(absInt[int32]), each1(absInt[uint8]),
	}.run(env, in, out)
}

func absInt[T integer](x T) T {
	if x < 0 {
		return -x
	}
	return x
}

func (abs) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Abs(in[0]) }

func (abs) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	if in[0].DType == array.U8 {
		return in // StableHLO's abs takes signed numbers only
	}
	return []hlo.Ref{w.Op("abs", "", in[0].Type, in[0])}
}
