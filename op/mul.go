package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Mul returns x times y, element by element, broadcast together.
func Mul(x, y *Tensor) *Tensor { return apply1(mul{}, x, y) }

type mul struct{ arith }

func (mul) Name() string    { return "mul" }
func (mul) Linear() [][]int { return [][]int{{0}, {1}} }

func (mul) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{
		SumTo(Mul(dz[0], in[1]), in[0].Shape()),
		SumTo(Mul(dz[0], in[0]), in[1].Shape()),
	}
}

func (mul) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Mul[float32], kernel.Mul[float64],
		each2(mulInt[int64]), each2(mulInt[int32]), each2(mulInt[uint8]),
	}.run(env, in, out)
}

func mulInt[T integer](x, y T) T { return x * y }

func (mul) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Mul(in[0], in[1]) }

func (mul) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "multiply", in, out[0])
}
