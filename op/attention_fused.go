package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
)

// fused returns cuDNN's kernel for this attention, and whether it has one.
func (o attention) fused(w *hlo.Writer, in []hlo.Ref) (cuda.Attention, bool) {
	a := cuda.Attention{Scale: o.scale(in[0].Shape), Causal: o.Causal, Window: o.Window}
	return a, len(in) == 3 && o.Offset == 0 && o.Cap == 0 && a.Fits(w, in[0], in[1], in[2])
}

// emitFused calls cuDNN's kernel for the gradient, which wants all arrays in the dtype of the queries.
func (o attentionGrad) emitFused(w *hlo.Writer, a cuda.Attention, in []hlo.Ref, out []Type) []hlo.Ref {
	d := in[0].DType
	y, lse, dy := w.Convert(in[3], d), in[4], w.Convert(in[5], d)
	return a.Backward(w, []hlo.Ref{in[0], in[1], in[2], w.Convert(lse, array.F32), dy, y}, hloTypes(out))
}
