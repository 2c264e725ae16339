package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Add returns x + y, broadcast together.
func Add(x, y *Tensor) *Tensor { return apply1(add{}, x, y) }

type add struct{ arith }

func (add) Name() string    { return "add" }
func (add) Role() any       { return AddRole{} }
func (add) Linear() [][]int { return [][]int{{0, 1}} }

func (add) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{SumTo(dz[0], in[0].Shape()), SumTo(dz[0], in[1].Shape())}
}

// expand returns the k-th Taylor coefficient of a sum, without adding zeros.
func (add) expand(k int, in []*series, out *series) *Tensor {
	return broadcastLike(sumOf(in[0].at(k), in[1].at(k)), out.value)
}

func (add) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Add[float32], kernel.Add[float64],
		each2(addInt[int64]), each2(addInt[int32]), each2(addInt[uint8]),
	}.run(env, in, out)
}

// Fuse rewrites a product with one weight matrix plus a bias as one linear layer. It leaves 16-bit floats
// alone, which would be rounded once instead of twice.
func (add) Fuse(in []*Tensor) *Tensor {
	y, bias := in[0], in[1]
	if y.Node() == nil || y.DType().IsHalf() || len(bias.Shape()) != 1 || bias.Dim(0) != y.Dim(-1) {
		return nil
	}
	o, ok := y.Node().Op().(matmul)
	if !ok || o.TransX || len(y.Node().In()[1].Shape()) != 2 {
		return nil
	}
	return apply1(linear{TransW: !o.TransY}, y.Node().In()[0], y.Node().In()[1], bias)
}

func addInt[T integer](x, y T) T { return x + y }

func (add) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Add(in[0], in[1]) }

func (add) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if w.Target() == hlo.CUDA && in[0].Shape.Equal(in[1].Shape) && w.IsProduct(in[0]) != w.IsProduct(in[1]) {
		// The product would accumulate into a copy of the other operand if that is needed later: one pass more over
		// both.
		in = slices.Clone(in)
		for i, x := range in {
			if w.IsProduct(x) {
				in[i] = w.Op("optimization_barrier", "", x.Type, x)
			}
		}
	}
	return emitBinary(w, "add", in, out[0])
}
