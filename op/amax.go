package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// AMax returns the largest element over dims, which are dropped; no dims means all. Elements that tie share
// the gradient.
func AMax(x *Tensor, dims ...int) *Tensor {
	return apply1(amax{Dims: normDims(len(x.Shape()), dims)}, x)
}

type amax struct{ Dims []int }

func (amax) Name() string { return "amax" }

func (o amax) Infer(in []Type) ([]Type, error) { return inferExtreme(in, o.Dims) }

func (o amax) VJP(in, y, dy []*Tensor) []*Tensor { return extremeGrad(in[0], y[0], dy[0], o.Dims) }
func (o amax) Rule(in []Type) mesh.Rule          { return reduceRule(len(in[0].Shape), o.Dims, "max") }
func (amax) Work(in, out []Type) Work            { return onePass(in, out) }

func (o amax) Eval(env *Env, in, out []array.Array) {
	extremes{
		folding[float32]{kernel.MaxOf[float32], kernel.Max[float32], float32(math.Inf(-1))},
		folding[float64]{kernel.MaxOf[float64], kernel.Max[float64], math.Inf(-1)},
		foldOf(math.MinInt64, maxInt[int64]), foldOf(math.MinInt32, maxInt[int32]), foldOf(0, maxInt[uint8]),
	}.run(env, in[0], out[0], o.Dims)
}

func maxInt[T integer](x, y T) T { return max(x, y) }

func (o amax) Loop(in, _ []Type) (Loop, bool) {
	return foldLoop(in, o.Dims, lane.FoldMax, amax{Dims: []int{1}})
}

func (o amax) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Reduce("maximum", in[0], lowest(in[0].DType), o.Dims, hloType(out[0]))}
}

func (amax) Samples() []Sample {
	return reductionSamples(f32, func(dims ...int) Op { return amax{Dims: dims} })
}

func inferExtreme(in []Type, dims []int) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	return inferReduced(in, dims, in[0].DType)
}

// extremeGrad shares dy evenly among the elements of x that equal y, the extreme along dims.
func extremeGrad(x, y, dy *Tensor, dims []int) []*Tensor {
	mask := Cast(Equal(x, keepDims(y, x, dims)), x.DType())
	share := Div(dy, Sum(mask, dims...))
	return []*Tensor{Mul(mask, keepDims(share, x, dims))}
}

// extremes holds the reduction kernels of every dtype that is ordered.
type extremes struct {
	f32 folding[float32]
	f64 folding[float64]
	i64 folding[int64]
	i32 folding[int32]
	u8  folding[uint8]
}

func (e extremes) run(env *Env, in, out array.Array, dims []int) {
	switch in.DType() {
	case array.F32:
		e.f32.run(env, in, out, dims)
	case array.F64:
		e.f64.run(env, in, out, dims)
	case array.I64:
		e.i64.run(env, in, out, dims)
	case array.I32:
		e.i32.run(env, in, out, dims)
	case array.U8:
		e.u8.run(env, in, out, dims)
	}
}

// lowest returns a value that no number of the dtype is below.
func lowest(d array.DType) float64 {
	switch d {
	case array.I64:
		return math.MinInt64
	case array.I32:
		return math.MinInt32
	case array.I16:
		return math.MinInt16
	case array.U8:
		return 0
	}
	return math.Inf(-1)
}

// highest returns a value that no number of the dtype is above; for i64 it is the largest one that float64
// holds exactly.
func highest(d array.DType) float64 {
	switch d {
	case array.I64:
		return math.MaxInt64 - 1023
	case array.I32:
		return math.MaxInt32
	case array.I16:
		return math.MaxInt16
	case array.U8:
		return math.MaxUint8
	}
	return math.Inf(1)
}
