package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// TopK returns the k largest elements along dim, largest first, and their indices (i64). Of equal elements
// the first comes first; NaN counts as the largest.
func TopK(x *Tensor, k, dim int) (values, indices *Tensor) {
	out := ir.Apply(topK{K: k, Dim: normDim(len(x.Shape()), dim)}, x)
	return out[0], out[1]
}

type topK struct{ K, Dim int }

func (topK) Name() string { return "topk" }

func (o topK) Infer(in []Type) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	shape := in[0].Shape.Clone()
	if o.K < 0 || o.K > shape[o.Dim] {
		return nil, fmt.Errorf("dim %d of %v has no %d largest elements", o.Dim, in[0], o.K)
	}
	shape[o.Dim] = o.K
	return []Type{{DType: in[0].DType, Shape: shape}, {DType: array.I64, Shape: shape}}, nil
}

func (o topK) VJP(in, y, dy []*Tensor) []*Tensor { return placeBack(in[0], y[1], dy[0], o.Dim) }

func (o topK) Rule(in []Type) mesh.Rule {
	words, ok := joinWords(len(in[0].Shape), o.Dim, 2)
	if !ok {
		return mesh.Unknown
	}
	return mesh.Rule(words[0] + "->" + words[1] + "," + words[1])
}

func (topK) Work(in, out []Type) Work { return onePass(in, out) }

func (o topK) Eval(env *Env, in, out []array.Array) {
	selection{dim: o.Dim, keep: o.K, order: greatest}.run(env, in[0], out)
}

func (o topK) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	sorted := emitSort(w, in[0], sort{Dim: o.Dim, Descending: true})
	start, end := make([]int, len(in[0].Shape)), out[0].Shape
	return []hlo.Ref{
		emitSlice(w, sorted[0], start, end, ones(len(start)), out[0]),
		emitSlice(w, sorted[1], start, end, ones(len(start)), out[1]),
	}
}

func (topK) Samples() []Sample {
	return []Sample{
		{Op: topK{K: 3, Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: topK{K: 2, Dim: 0}, In: []Arg{f32(40, 6)}},
	}
}
