package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ArgMin returns the index (i64) of the smallest element along dim, which is dropped: the first of those that
// tie.
func ArgMin(x *Tensor, dim int) *Tensor { return apply1(argMin{Dim: normDim(len(x.Shape()), dim)}, x) }

type argMin struct {
	indexOf
	Dim int
}

func (argMin) Name() string                      { return "argmin" }
func (o argMin) Infer(in []Type) ([]Type, error) { return inferIndexOf(in, o.Dim) }
func (o argMin) Rule(in []Type) mesh.Rule {
	return wholeReduceRule(len(in[0].Shape),
		[]int{o.Dim})
}
func (o argMin) Eval(env *Env, in, out []array.Array) { findAlong(env, in[0], out[0], o.Dim, least) }

func (o argMin) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitIndexOf(w, "LT", highest(in[0].DType), in[0], o.Dim, out[0])
}

func (argMin) Samples() []Sample {
	return []Sample{
		{Op: argMin{Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: argMin{Dim: 0}, In: []Arg{f32(5, 7, 6)}},
	}
}
