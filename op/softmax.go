package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Softmax returns exp(x) divided by its sum along dim.
func Softmax(x *Tensor, dim int) *Tensor {
	return apply1(softmax{Dim: normDim(len(x.Shape()), dim)}, x)
}

type softmax struct{ Dim int }

func (softmax) Name() string   { return "softmax" }
func (softmax) InPlace() []int { return []int{0} }

func (o softmax) Infer(in []Type) ([]Type, error) { return inferAlong(in, 1, o.Dim) }

func (o softmax) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], o.Dim), in) }

func (o softmax) define(j joint, in []*Tensor) []*Tensor {
	x := wide(in[0])
	e := Exp(Sub(x, j.shift(x, o.Dim)))
	return []*Tensor{Cast(Div(e, j.sumOver(e, o.Dim)), in[0].DType())}
}

// CooperativeRule and Cooperate let devices split the dim.
func (o softmax) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o softmax) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.joint(0, o.Dim), in)
}

func (o softmax) VJP(_, y, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(softmaxGrad(o), y[0], dy[0])}
}

func (o softmax) Rule(in []Type) mesh.Rule { return alongRule(len(in[0].Shape), o.Dim) }

func (softmax) Work(in, out []Type) Work {
	return Work{Flops: 5 * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o softmax) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { softmaxLines(env, o.Dim, in, out, softmaxLine[float32]) },
		func() { softmaxLines(env, o.Dim, in, out, softmaxLine[float64]) })
}

func softmaxLine[T floats](dst []T, src [][]T) { kernel.SoftmaxRow(dst, src[0]) }

// softmaxLines runs a kernel along dim of arrays of one shape.
func softmaxLines[T floats](env *Env, dim int, in, out []array.Array, f func(dst []T, src [][]T)) {
	src := make([][]T, len(in))
	for i, a := range in {
		src[i] = array.Data[T](a)
	}
	eachLine(env, linesOf(out[0].Shape(), dim), array.Data[T](out[0]), src, f)
}

func (o softmax) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (softmax) Samples() []Sample {
	return []Sample{
		{Op: softmax{Dim: 2}, In: []Arg{f32(5, 7, 6)}},
		{Op: softmax{Dim: 1}, In: []Arg{f32(3, 7, 18)}},
		{Op: softmax{Dim: 0}, In: []Arg{f32(9)}},
	}
}

// softmaxGrad computes the gradient of softmax from its result and that result's gradient.
type softmaxGrad struct{ Dim int }

func (softmaxGrad) Name() string    { return "softmax_grad" }
func (softmaxGrad) Linear() [][]int { return [][]int{{1}} }
func (softmaxGrad) InPlace() []int  { return []int{1} }

func (o softmaxGrad) Infer(in []Type) ([]Type, error) { return inferAlong(in, 2, o.Dim) }

func (o softmaxGrad) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], o.Dim), in) }

func (o softmaxGrad) define(j joint, in []*Tensor) []*Tensor {
	y, dy := wide(in[0]), wide(in[1])
	return []*Tensor{Cast(Mul(y, Sub(dy, j.sumOver(Mul(y, dy), o.Dim))), in[0].DType())}
}

// CooperativeRule and Cooperate let devices split the dim.
func (o softmaxGrad) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o softmaxGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.joint(0, o.Dim), in)
}

func (o softmaxGrad) VJP(in, _, d []*Tensor) []*Tensor { return vjpByParts(o, in, d) }

func (o softmaxGrad) Rule(in []Type) mesh.Rule {
	word := wholeDim(factors(0, len(in[0].Shape)), o.Dim)
	return mesh.Rule(word + "," + word + "->" + word)
}

func (softmaxGrad) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o softmaxGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { softmaxLines(env, o.Dim, in, out, softmaxGradLine[float32]) },
		func() { softmaxLines(env, o.Dim, in, out, softmaxGradLine[float64]) })
}

func softmaxGradLine[T floats](dst []T, src [][]T) { kernel.SoftmaxGradRow(dst, src[0], src[1]) }

func (o softmaxGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (softmaxGrad) Samples() []Sample {
	return []Sample{
		{Op: softmaxGrad{Dim: 2}, In: []Arg{f32(5, 7, 6), f32(5, 7, 6)}},
		{Op: softmaxGrad{Dim: 0}, In: []Arg{f32(7, 18), f32(7, 18)}},
	}
}
