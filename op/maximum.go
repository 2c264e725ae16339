package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Maximum returns the larger of x and y, broadcast together; NaN if either is. Equal operands get half the
// gradient each.
func Maximum(x, y *Tensor) *Tensor { return apply1(maximum{}, x, y) }

type maximum struct{ arith }

func (maximum) Name() string { return "maximum" }

func (maximum) VJP(in, _, dz []*Tensor) []*Tensor {
	x, y := in[0], in[1]
	return shareGradient(x, y, Less(x, y), Less(y, x), dz[0])
}

func (maximum) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Max[float32], kernel.Max[float64],
		each2(maximumInt[int64]), each2(maximumInt[int32]), each2(maximumInt[uint8]),
	}.run(env, in, out)
}

func maximumInt[T integer](x, y T) T { return max(x, y) }

func (maximum) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Max(in[0], in[1]) }

func (maximum) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "maximum", in, out[0])
}

// shareGradient passes dz to the chosen operand, half of it to each if they are equal. If one is NaN, neither
// is chosen, and both get all of it.
func shareGradient(x, y, xLost, yLost, dz *Tensor) []*Tensor {
	zero := Const(dz, 0)
	share := Where(Equal(x, y), MulScalar(dz, 0.5), dz)
	return []*Tensor{
		SumTo(Where(xLost, zero, share), x.Shape()),
		SumTo(Where(yLost, zero, share), y.Shape()),
	}
}
