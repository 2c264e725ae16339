package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Sub returns x − y, broadcast together.
func Sub(x, y *Tensor) *Tensor { return apply1(sub{}, x, y) }

type sub struct{ arith }

func (sub) Name() string    { return "sub" }
func (sub) Linear() [][]int { return [][]int{{0, 1}} }

func (sub) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{SumTo(dz[0], in[0].Shape()), Neg(SumTo(dz[0], in[1].Shape()))}
}

// expand returns the k-th Taylor coefficient of a difference, without subtracting zeros.
func (sub) expand(k int, in []*series, out *series) *Tensor {
	y := in[1].at(k)
	if x := in[0].at(k); x != nil && y != nil {
		return broadcastLike(Sub(x, y), out.value)
	} else if y == nil {
		return broadcastLike(x, out.value)
	}
	return broadcastLike(Neg(y), out.value)
}

func (sub) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Sub[float32], kernel.Sub[float64],
		each2(subInt[int64]), each2(subInt[int32]), each2(subInt[uint8]),
	}.run(env, in, out)
}

func subInt[T integer](x, y T) T { return x - y }

func (sub) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Sub(in[0], in[1]) }

func (sub) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "subtract", in, out[0])
}
