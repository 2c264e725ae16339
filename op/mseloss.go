package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// MSELoss returns the squared difference of x and y, broadcast together. Reduction is "mean" (the default if
// empty), "sum" or "none".
func MSELoss(x, y *Tensor, reduction string) *Tensor {
	shape, err := broadcastShapes(x.Shape(), y.Shape())
	if x.Err() != nil || y.Err() != nil || err != nil { // let Infer report it, with its place
		return apply1(mseLoss{}, x, y)
	}
	total := func() *Tensor { return apply1(mseLoss{}, Expand(x, shape...), Expand(y, shape...)) }
	switch reduction {
	case "none":
		return Square(Sub(x, y))
	case "sum":
		return Cast(total(), x.DType())
	case "", "mean":
		return Cast(MulScalar(total(), 1/float64(shape.Len())), x.DType())
	}
	return apply1(mseLoss{Reduction: reduction}, x, y)
}

// mseLoss is the sum of squared differences, in float32 for 16-bit floats. Other reductions are computed
// around it, so that sums over shards can be added.
type mseLoss struct{ Reduction string }

func (mseLoss) Name() string { return "mse_loss" }

func (o mseLoss) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 2); err != nil {
		return nil, err
	}
	if o.Reduction != "" {
		return nil, fmt.Errorf("reduction is %q: want mean, sum or none", o.Reduction)
	}
	if !in[0].Shape.Equal(in[1].Shape) {
		return nil, fmt.Errorf("cannot compare %v with %v", in[0], in[1])
	}
	return []Type{{DType: in[0].DType.Compute()}}, nil
}

func (mseLoss) Decompose(in []*Tensor) []*Tensor {
	return []*Tensor{Sum(Square(Sub(wide(in[0]), wide(in[1]))))}
}

func (mseLoss) VJP(in, _, dout []*Tensor) []*Tensor {
	dx := Mul(Sub(wide(in[0]), wide(in[1])), MulScalar(dout[0], 2))
	return []*Tensor{Cast(dx, in[0].DType()), Cast(Neg(dx), in[1].DType())}
}

func (mseLoss) Rule(in []Type) mesh.Rule {
	word := factors(0, len(in[0].Shape))
	return mesh.Rule(word + "," + word + "->")
}

func (mseLoss) Work(in, out []Type) Work {
	return Work{Flops: 3 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (mseLoss) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalMSELoss[float32](env, in, out[0]) },
		func() { evalMSELoss[float64](env, in, out[0]) })
}

func evalMSELoss[T floats](env *Env, in []array.Array, out array.Array) {
	x, y := array.Data[T](in[0]), array.Data[T](in[1])
	array.Data[T](out)[0] = sumBlocks(env, len(x), func() func(lo, hi int) T {
		diff := make([]T, kernel.SumBlock)
		return func(lo, hi int) T {
			d := diff[:hi-lo]
			kernel.Sub(d, x[lo:hi], y[lo:hi])
			return kernel.SumSquares(d)
		}
	})
}

// sumBlocks returns the sum over n elements in the order of kernel.Sum. A leaf sums one block at a time;
// newLeaf is called once per task, so that a leaf may own scratch memory.
func sumBlocks[T floats](env *Env, n int, newLeaf func() func(lo, hi int) T) T {
	parts := make([]T, (n+kernel.SumBlock-1)/kernel.SumBlock)
	env.Pool.For(len(parts), 8, func(lo, hi int) {
		leaf := newLeaf()
		for b := lo; b < hi; b++ {
			parts[b] = leaf(b*kernel.SumBlock, min(n, (b+1)*kernel.SumBlock))
		}
	})
	return kernel.Tree(parts)
}

func (o mseLoss) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (mseLoss) Samples() []Sample {
	return []Sample{{In: []Arg{f32(5, 7), f32(5, 7)}}, {In: []Arg{f32(150, 140), f32(150, 140)}}}
}
