package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// RMSNorm divides the last dim of x by its root mean square and multiplies by gamma, which has that dim's
// size. A nil gamma means ones.
func RMSNorm(x, gamma *Tensor, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return apply1(rmsNorm{Eps: eps}, x, featureOr(gamma, x, 1))
}

// rmsNorm also returns 1/(root mean square) of each row, which its gradient needs.
type rmsNorm struct{ Eps float64 }

func (rmsNorm) Name() string   { return "rms_norm" }
func (o rmsNorm) Role() any    { return RMSNormRole(o) }
func (rmsNorm) InPlace() []int { return []int{0, -1} }

func (rmsNorm) Infer(in []Type) ([]Type, error) {
	if err := inferNorm(in, 2); err != nil {
		return nil, err
	}
	return []Type{in[0], statOf(in[0])}, nil
}

func (o rmsNorm) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], -1), in) }

func (o rmsNorm) define(j joint, in []*Tensor) []*Tensor {
	x, gamma := wide(in[0]), wide(in[1])
	rstd := Rsqrt(AddScalar(j.mean(Sum(Square(x), -1)), o.Eps))
	return []*Tensor{Cast(Mul(Mul(x, lastOf(rstd, x)), gamma), in[0].DType()), rstd}
}

func (rmsNorm) VJP(in, out, dout []*Tensor) []*Tensor {
	grads := make([]*Tensor, 2)
	if dout[0] != nil {
		copy(grads, ir.Apply(rmsNormGrad{}, in[0], in[1], dout[0], out[1]))
	}
	grads[0] = plus(grads[0], normStats{x: in[0], rstd: out[1]}.grad(nil, dout[1]))
	return grads
}

func (rmsNorm) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	return mesh.Rule(word + "," + word[len(lead):] + "->" + word + "," + lead)
}

// CooperativeRule and Cooperate let devices split the last dim.
func (o rmsNorm) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o rmsNorm) Cooperate(at *Place, in []*Tensor) []*Tensor { return o.define(at.lastJoint(), in) }

func (rmsNorm) Work(in, out []Type) Work {
	return Work{Flops: 4 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o rmsNorm) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalRMSNorm[float32](env, o, in, out) },
		func() { evalRMSNorm[float64](env, o, in, out) })
}

func evalRMSNorm[T floats](env *Env, o rmsNorm, in, out []array.Array) {
	rows, n := rowsOf(in[0].Shape())
	x, gamma, y, rstd := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](out[0]), array.Data[T](out[1])
	env.rows(rows, n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			rstd[i] = kernel.RMSNormRow(y[i*n:(i+1)*n], x[i*n:(i+1)*n], gamma, T(o.Eps))
		}
	})
}

func (o rmsNorm) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (rmsNorm) Samples() []Sample {
	return []Sample{
		{Op: rmsNorm{Eps: 1e-6}, In: []Arg{f32(5, 7, 6), f32(6)}},
		{Op: rmsNorm{Eps: 1e-6}, In: []Arg{f32(150, 19), f32(19)}},
		{Op: rmsNorm{Eps: 1e-3}, In: []Arg{f32(9), f32(9)}},
	}
}

// rmsNormGrad computes the gradients of x and gamma from x, gamma, the result's gradient and each row's
// 1/(root mean square). Its own gradient treats these four as independent.
type rmsNormGrad struct{}

func (rmsNormGrad) Name() string   { return "rms_norm_grad" }
func (rmsNormGrad) Role() any      { return RMSNormGradRole{} }
func (rmsNormGrad) InPlace() []int { return []int{2, -1} }

func (rmsNormGrad) Infer(in []Type) ([]Type, error) {
	if err := inferNormGrad(in, 4); err != nil {
		return nil, err
	}
	return []Type{in[0], in[1]}, nil
}

func (o rmsNormGrad) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], -1), in) }

func (rmsNormGrad) define(j joint, in []*Tensor) []*Tensor {
	x, gamma, dy := wide(in[0]), wide(in[1]), wide(in[2])
	rstd := lastOf(wide(in[3]), x)
	h, g := Mul(x, rstd), Mul(dy, gamma)
	dx := Mul(rstd, Sub(g, Mul(h, lastOf(j.mean(Sum(Mul(g, h), -1)), x))))
	return []*Tensor{Cast(dx, in[0].DType()), Cast(SumTo(Mul(dy, h), gamma.Shape()), in[1].DType())}
}

func (o rmsNormGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (rmsNormGrad) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	last := word[len(lead):]
	return mesh.Rule(word + "," + last + "," + word + "," + lead + "->" + word + "," + last)
}

// CooperativeRule and Cooperate let devices split the last dim.
func (o rmsNormGrad) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o rmsNormGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.lastJoint(), in)
}

func (rmsNormGrad) Work(in, out []Type) Work {
	return Work{Flops: 11 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (rmsNormGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalRMSNormGrad[float32](env, in, out) },
		func() { evalRMSNormGrad[float64](env, in, out) })
}

func evalRMSNormGrad[T floats](env *Env, in, out []array.Array) {
	rows, n := rowsOf(in[0].Shape())
	x, gamma, dy := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2])
	rstd, dx := array.Data[T](in[3]), array.Data[T](out[0])
	sumRowBlocks(env, rows, n, [][]T{array.Data[T](out[1])}, func(i int, acc [][]T) {
		lo, hi := i*n, (i+1)*n
		kernel.RMSNormGradRow(dx[lo:hi], acc[0], x[lo:hi], gamma, dy[lo:hi], rstd[i])
	})
}

func (o rmsNormGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (rmsNormGrad) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7, 6), f32(6), f32(5, 7, 6), f32In(0.5, 2, 5, 7)}},
		{In: []Arg{f32(150, 19), f32(19), f32(150, 19), f32In(0.5, 2, 150)}},
		{In: []Arg{f32(6), f32(6), f32(6), f32In(0.5, 2)}},
	}
}
