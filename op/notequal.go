package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// NotEqual returns x ≠ y elementwise, broadcast together; NaN differs from everything.
func NotEqual(x, y *Tensor) *Tensor { return apply1(notEqual{}, x, y) }

type notEqual struct{ comparison }

func (notEqual) Name() string { return "not_equal" }

func (notEqual) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		notEqualRun[float32], notEqualRun[float64], notEqualRun[int64], notEqualRun[int32], notEqualRun[uint8],
	}.run(env, in, out)
}

func notEqualRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] != y[i]
	}
}

func (notEqual) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.NotEqual, false) }

func (notEqual) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "NE", in, out[0])
}
