package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AllOf reports whether every element is true over dims, which are dropped; no dims means all. Numbers are
// true if they are not zero.
func AllOf(x *Tensor, dims ...int) *Tensor {
	return apply1(allOf{Dims: normDims(len(x.Shape()), dims)}, Cast(x, array.Bool))
}

type allOf struct{ Dims []int }

func (allOf) Name() string                      { return "all" }
func (o allOf) Infer(in []Type) ([]Type, error) { return inferTruth(in, o.Dims) }
func (allOf) VJP(_, _, _ []*Tensor) []*Tensor   { return []*Tensor{nil} }
func (allOf) NoGradient() string                { return "its result is a truth value" }
func (o allOf) Rule(in []Type) mesh.Rule        { return reduceRule(len(in[0].Shape), o.Dims, "all") }
func (allOf) Work(in, out []Type) Work          { return onePass(in, out) }

func (o allOf) Eval(env *Env, in, out []array.Array) {
	foldOf(true, func(x, y bool) bool { return x && y }).run(env, in[0], out[0], o.Dims)
}

func (o allOf) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Reduce("and", in[0], 1, o.Dims, hloType(out[0]))}
}

func (allOf) Samples() []Sample {
	return reductionSamples(bools, func(dims ...int) Op { return allOf{Dims: dims} })
}
