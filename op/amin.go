package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// AMin returns the smallest element over dims, which are dropped; no dims means all. Elements that tie share
// the gradient.
func AMin(x *Tensor, dims ...int) *Tensor {
	return apply1(amin{Dims: normDims(len(x.Shape()), dims)}, x)
}

type amin struct{ Dims []int }

func (amin) Name() string { return "amin" }

func (o amin) Infer(in []Type) ([]Type, error) { return inferExtreme(in, o.Dims) }

func (o amin) VJP(in, y, dy []*Tensor) []*Tensor { return extremeGrad(in[0], y[0], dy[0], o.Dims) }
func (o amin) Rule(in []Type) mesh.Rule          { return reduceRule(len(in[0].Shape), o.Dims, "min") }
func (amin) Work(in, out []Type) Work            { return onePass(in, out) }

func (o amin) Eval(env *Env, in, out []array.Array) {
	extremes{
		folding[float32]{kernel.MinOf[float32], kernel.Min[float32], float32(math.Inf(1))},
		folding[float64]{kernel.MinOf[float64], kernel.Min[float64], math.Inf(1)},
		foldOf(math.MaxInt64, minInt[int64]), foldOf(math.MaxInt32, minInt[int32]), foldOf(math.MaxUint8,
			minInt[uint8]),
	}.run(env, in[0], out[0], o.Dims)
}

func minInt[T integer](x, y T) T { return min(x, y) }

func (o amin) Loop(in, _ []Type) (Loop, bool) {
	return foldLoop(in, o.Dims, lane.FoldMin, amin{Dims: []int{1}})
}

func (o amin) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Reduce("minimum", in[0], highest(in[0].DType), o.Dims, hloType(out[0]))}
}

func (amin) Samples() []Sample {
	return reductionSamples(f32, func(dims ...int) Op { return amin{Dims: dims} })
}
