package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AnyOf reports whether some element is true over dims, which are dropped; no dims means all. Numbers are
// true if they are not zero.
func AnyOf(x *Tensor, dims ...int) *Tensor {
	return apply1(anyOf{Dims: normDims(len(x.Shape()), dims)}, Cast(x, array.Bool))
}

type anyOf struct{ Dims []int }

func (anyOf) Name() string                      { return "any" }
func (o anyOf) Infer(in []Type) ([]Type, error) { return inferTruth(in, o.Dims) }
func (anyOf) VJP(_, _, _ []*Tensor) []*Tensor   { return []*Tensor{nil} }
func (anyOf) NoGradient() string                { return "its result is a truth value" }
func (o anyOf) Rule(in []Type) mesh.Rule        { return reduceRule(len(in[0].Shape), o.Dims, "any") }
func (anyOf) Work(in, out []Type) Work          { return onePass(in, out) }

func (o anyOf) Eval(env *Env, in, out []array.Array) {
	foldOf(false, func(x, y bool) bool { return x || y }).run(env, in[0], out[0], o.Dims)
}

func (o anyOf) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Reduce("or", in[0], 0, o.Dims, hloType(out[0]))}
}

func (anyOf) Samples() []Sample {
	return reductionSamples(bools, func(dims ...int) Op { return anyOf{Dims: dims} })
}

func inferTruth(in []Type, dims []int) ([]Type, error) {
	if len(in) != 1 || in[0].DType != array.Bool {
		return nil, fmt.Errorf("want truth values: got %v", in)
	}
	return inferReduced(in, dims, array.Bool)
}
