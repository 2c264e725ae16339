package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// LogSoftmax returns the logarithm of Softmax, accurate also where that underflows.
func LogSoftmax(x *Tensor, dim int) *Tensor {
	return apply1(logSoftmax{Dim: normDim(len(x.Shape()), dim)}, x)
}

type logSoftmax struct{ Dim int }

func (logSoftmax) Name() string   { return "log_softmax" }
func (logSoftmax) InPlace() []int { return []int{0} }

func (o logSoftmax) Infer(in []Type) ([]Type, error) { return inferAlong(in, 1, o.Dim) }

func (o logSoftmax) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], o.Dim), in) }

func (o logSoftmax) define(j joint, in []*Tensor) []*Tensor {
	x := wide(in[0])
	z := Sub(x, j.shift(x, o.Dim))
	y := Sub(z, keepDims(Log(j.sum(Sum(Exp(z), o.Dim))), z, []int{o.Dim}))
	return []*Tensor{Cast(y, in[0].DType())}
}

// CooperativeRule and Cooperate let devices split the dim.
func (o logSoftmax) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o logSoftmax) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.joint(0, o.Dim), in)
}

func (o logSoftmax) VJP(_, y, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(logSoftmaxGrad(o), y[0], dy[0])}
}

func (o logSoftmax) Rule(in []Type) mesh.Rule { return softmax(o).Rule(in) }

func (o logSoftmax) Work(in, out []Type) Work { return softmax(o).Work(in, out) }

func (o logSoftmax) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { softmaxLines(env, o.Dim, in, out, logSoftmaxLine[float32]) },
		func() { softmaxLines(env, o.Dim, in, out, logSoftmaxLine[float64]) })
}

func logSoftmaxLine[T floats](dst []T, src [][]T) { kernel.LogSoftmaxRow(dst, src[0]) }

func (o logSoftmax) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (logSoftmax) Samples() []Sample {
	return []Sample{
		{Op: logSoftmax{Dim: 2}, In: []Arg{f32(5, 7, 6)}},
		{Op: logSoftmax{Dim: 0}, In: []Arg{f32(7, 18)}},
	}
}

// logSoftmaxGrad computes the gradient of log_softmax from its result and that result's gradient.
type logSoftmaxGrad struct{ Dim int }

func (logSoftmaxGrad) Name() string   { return "log_softmax_grad" }
func (logSoftmaxGrad) InPlace() []int { return []int{1} }

func (o logSoftmaxGrad) Infer(in []Type) ([]Type, error) { return inferAlong(in, 2, o.Dim) }

func (o logSoftmaxGrad) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], o.Dim), in) }

func (o logSoftmaxGrad) define(j joint, in []*Tensor) []*Tensor {
	y, dy := wide(in[0]), wide(in[1])
	return []*Tensor{Cast(Sub(dy, Mul(Exp(y), j.sumOver(dy, o.Dim))), in[0].DType())}
}

// CooperativeRule and Cooperate let devices split the dim.
func (o logSoftmaxGrad) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o logSoftmaxGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.joint(0, o.Dim), in)
}

func (o logSoftmaxGrad) VJP(in, _, d []*Tensor) []*Tensor { return vjpByParts(o, in, d) }

func (o logSoftmaxGrad) Rule(in []Type) mesh.Rule { return softmaxGrad(o).Rule(in) }

func (o logSoftmaxGrad) Work(in, out []Type) Work { return softmaxGrad(o).Work(in, out) }

func (o logSoftmaxGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { softmaxLines(env, o.Dim, in, out, logSoftmaxGradLine[float32]) },
		func() { softmaxLines(env, o.Dim, in, out, logSoftmaxGradLine[float64]) })
}

// logSoftmaxGradLine computes piece by piece, so that the exponentials need little memory.
func logSoftmaxGradLine[T floats](dst []T, src [][]T) {
	y, dy := src[0], src[1]
	total := kernel.Sum(dy)
	var piece [512]T
	for lo := 0; lo < len(dst); lo += len(piece) {
		hi := min(len(dst), lo+len(piece))
		e := piece[:hi-lo]
		kernel.Exp(e, y[lo:hi])
		kernel.MulScalar(e, e, total)
		kernel.Sub(dst[lo:hi], dy[lo:hi], e)
	}
}

func (o logSoftmaxGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (logSoftmaxGrad) Samples() []Sample {
	return []Sample{
		{Op: logSoftmaxGrad{Dim: 1}, In: []Arg{f32(5, 7), f32(5, 7)}},
		{Op: logSoftmaxGrad{Dim: 0}, In: []Arg{f32(7, 18), f32(7, 18)}},
	}
}
