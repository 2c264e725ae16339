package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// LessEqual returns x ≤ y elementwise, broadcast together; false for NaN.
func LessEqual(x, y *Tensor) *Tensor { return apply1(lessEqual{}, x, y) }

type lessEqual struct{ comparison }

func (lessEqual) Name() string { return "less_equal" }

func (lessEqual) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		lessEqualRun[float32], lessEqualRun[float64], lessEqualRun[int64], lessEqualRun[int32], lessEqualRun[uint8],
	}.run(env, in, out)
}

func lessEqualRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] <= y[i]
	}
}

func (lessEqual) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.LessEqual, false) }

func (lessEqual) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "LE", in, out[0])
}
