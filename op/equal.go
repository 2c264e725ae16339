package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Equal compares x and y for equality, broadcast together; NaN equals nothing.
func Equal(x, y *Tensor) *Tensor { return apply1(equal{}, x, y) }

type equal struct{ comparison }

func (equal) Name() string { return "equal" }

func (equal) Eval(env *Env, in, out []array.Array) {
	compareKernels{
		equalRun[float32], equalRun[float64], equalRun[int64], equalRun[int32], equalRun[uint8],
	}.run(env, in, out)
}

func equalRun[T ordered](dst []bool, x, y []T) {
	for i := range dst {
		dst[i] = x[i] == y[i]
	}
}

func (equal) Loop(in, _ []Type) (Loop, bool) { return comparing(in, lane.Equal, false) }

func (equal) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitComparison(w, "EQ", in, out[0])
}
