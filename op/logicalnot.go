package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// LogicalNot returns not x.
func LogicalNot(x *Tensor) *Tensor { return apply1(logicalNot{}, x) }

type logicalNot struct{ unary }

func (logicalNot) Name() string                    { return "logical_not" }
func (logicalNot) NoGradient() string              { return "its result is a truth value" }
func (logicalNot) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (logicalNot) Samples() []Sample               { return oneSample(bools(5, 7)) }

func (logicalNot) Infer(in []Type) ([]Type, error) {
	if err := wantSame(in, 1); err != nil {
		return nil, err
	}
	return []Type{in[0]}, wantTruth(in)
}

func (logicalNot) Eval(env *Env, in, out []array.Array) {
	mapOver(env, asBytes(out[0]), asBytes(in[0]), func(dst, x []uint8) {
		for i := range dst {
			dst[i] = x[i] ^ 1
		}
	})
}

func (logicalNot) Lane(b *lane.Builder, in []lane.Arg) lane.Arg {
	return b.Not(in[0])
}

func (logicalNot) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("not", "", in[0].Type, in[0])}
}
