package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Greater returns x > y elementwise, broadcast together; false for NaN.
func Greater(x, y *Tensor) *Tensor { return apply1(greater{}, x, y) }

type greater struct{ comparison }

func (greater) Name() string { return "greater" }

func (greater) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		greaterRun[float32], greaterRun[float64], greaterRun[int64], greaterRun[int32], greaterRun[uint8],
	}.run(env, in, out)
}

func greaterRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] > y[i]
	}
}

func (greater) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.Less, true) }

func (greater) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "GT", in, out[0])
}
