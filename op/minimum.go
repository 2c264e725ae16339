package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Minimum returns the smaller of x and y, broadcast together; NaN if either is. Equal operands get half the
// gradient each.
func Minimum(x, y *Tensor) *Tensor { return apply1(minimum{}, x, y) }

type minimum struct{ arith }

func (minimum) Name() string { return "minimum" }

func (minimum) VJP(in, _, dz []*Tensor) []*Tensor {
	x, y := in[0], in[1]
	return shareGradient(x, y, Greater(x, y), Greater(y, x), dz[0])
}

func (minimum) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Min[float32], kernel.Min[float64],
		each2(minimumInt[int64]), each2(minimumInt[int32]), each2(minimumInt[uint8]),
	}.run(env, in, out)
}

func minimumInt[T integer](x, y T) T { return min(x, y) }

func (minimum) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Min(in[0], in[1]) }

func (minimum) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "minimum", in, out[0])
}
