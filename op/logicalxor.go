package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// LogicalXor returns x exclusive-or y, broadcast together.
func LogicalXor(x, y *Tensor) *Tensor { return apply1(logicalXor{}, x, y) }

type logicalXor struct{ logic }

func (logicalXor) Name() string { return "logical_xor" }

func (logicalXor) Eval(env *Env, in, out []array.Array) {
	runLogic(env, in, out, func(dst, x, y []uint8) {
		for i := range dst {
			dst[i] = x[i] ^ y[i]
		}
	})
}

func (logicalXor) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Xor(in[0], in[1]) }

func (logicalXor) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "xor", in, out[0])
}
