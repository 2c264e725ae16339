package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// LogicalOr returns x or y, broadcast together.
func LogicalOr(x, y *Tensor) *Tensor { return apply1(logicalOr{}, x, y) }

type logicalOr struct{ logic }

func (logicalOr) Name() string { return "logical_or" }

func (logicalOr) Eval(env *Env, in, out []array.Array) {
	runLogic(env, in, out, func(dst, x, y []uint8) {
		for i := range dst {
			dst[i] = x[i] | y[i]
		}
	})
}

func (logicalOr) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Or(in[0], in[1]) }

func (logicalOr) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "or", in, out[0])
}
