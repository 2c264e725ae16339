package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Neg returns −x.
func Neg(x *Tensor) *Tensor { return apply1(neg{}, x) }

type neg struct{ numeric }

func (neg) Name() string    { return "neg" }
func (neg) Linear() [][]int { return [][]int{{0}} }

func (neg) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{Neg(dy[0])} }

func (neg) Eval(env *Env, in, out []array.Array) {
	kernels1{
		kernel.Neg[float32], kernel.Neg[float64],
		each1(negInt[int64]), each1(negInt[int32]), each1(negInt[uint8]),
	}.run(env, in, out)
}

func negInt[T integer](x T) T { return -x }

func (neg) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Neg(in[0]) }

func (neg) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("negate", "", in[0].Type, in[0])}
}
