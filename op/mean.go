package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// Mean returns the mean over dims, which are dropped; no dims means all.
func Mean(x *Tensor, dims ...int) *Tensor {
	o := mean{Dims: normDims(len(x.Shape()), dims), Count: 1}
	for _, d := range o.Dims {
		o.Count *= x.Dim(d)
	}
	return apply1(o, x)
}

// mean is a sum over Dims divided by Count, the number of summed elements in the whole tensor, so that the
// results of shards of any size can be summed.
type mean struct {
	Dims  []int
	Count int
}

func (mean) Name() string    { return "mean" }
func (mean) Linear() [][]int { return [][]int{{0}} }

func (o mean) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return inferReduced(in, o.Dims, in[0].DType)
}

func (o mean) VJP(in, _, dy []*Tensor) []*Tensor {
	each := MulScalar(dy[0], 1/float64(o.Count))
	return []*Tensor{Expand(keepDims(each, in[0], o.Dims), in[0].Shape()...)}
}

func (o mean) Rule(in []Type) mesh.Rule { return reduceRule(len(in[0].Shape), o.Dims, "sum") }
func (mean) Work(in, out []Type) Work   { return onePass(in, out) }

func (o mean) Eval(env *Env, in, out []array.Array) {
	sum{Dims: o.Dims}.Eval(env, in, out)
	float(out[0],
		func() { divideAll(array.Data[float32](out[0]), float32(o.Count)) },
		func() { divideAll(array.Data[float64](out[0]), float64(o.Count)) })
}

func divideAll[T floats](xs []T, by T) {
	for i := range xs {
		xs[i] /= by
	}
}

func (o mean) Loop(in, _ []Type) (Loop, bool) {
	l, ok := foldLoop(in, o.Dims, lane.FoldSum, mean{Dims: []int{1}, Count: o.Count})
	l.Count = o.Count
	return l, ok
}

func (o mean) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	t := Type{DType: out[0].DType.Compute(), Shape: out[0].Shape}
	total := emitFold(w, "add", in[0], 0, o.Dims, t)
	return []hlo.Ref{w.Convert(emitDivide(w, total, float64(o.Count)), out[0].DType)}
}

func (mean) Samples() []Sample {
	return reductionSamples(f32, func(dims ...int) Op {
		o := mean{Dims: dims, Count: 1}
		for _, d := range dims {
			o.Count *= []int{5, 7, 6}[d]
		}
		return o
	})
}
