package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// GreaterEqual returns x ≥ y elementwise, broadcast together; false for NaN.
func GreaterEqual(x, y *Tensor) *Tensor { return apply1(greaterEqual{}, x, y) }

type greaterEqual struct{ comparison }

func (greaterEqual) Name() string { return "greater_equal" }

func (greaterEqual) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		greaterEqualRun[float32], greaterEqualRun[float64], greaterEqualRun[int64], greaterEqualRun[int32],
		greaterEqualRun[uint8],
	}.run(env, in, out)
}

func greaterEqualRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] >= y[i]
	}
}

func (greaterEqual) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.LessEqual, true) }

func (greaterEqual) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "GE", in, out[0])
}
