package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Less returns x < y elementwise, broadcast together; false for NaN.
func Less(x, y *Tensor) *Tensor { return apply1(less{}, x, y) }

type less struct{ comparison }

func (less) Name() string { return "less" }

func (less) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		lessRun[float32], lessRun[float64], lessRun[int64], lessRun[int32], lessRun[uint8],
	}.run(env, in, out)
}

func lessRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] < y[i]
	}
}

func (less) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.Less, false) }

func (less) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "LT", in, out[0])
}
