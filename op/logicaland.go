package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// LogicalAnd returns x and y, broadcast together.
func LogicalAnd(x, y *Tensor) *Tensor { return apply1(logicalAnd{}, x, y) }

type logicalAnd struct{ logic }

func (logicalAnd) Name() string { return "logical_and" }

func (logicalAnd) Eval(env *Env, in, out []array.Array) {
	runLogic(env, in, out, func(dst, x, y []uint8) {
		for i := range dst {
			dst[i] = x[i] & y[i]
		}
	})
}

func (logicalAnd) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.And(in[0], in[1]) }

func (logicalAnd) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "and", in, out[0])
}
