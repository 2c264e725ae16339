package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// LayerNorm normalizes the last dim of x to mean 0 and variance 1, then multiplies by gamma and adds beta,
// each of the last dim's size. A nil gamma means ones, a nil beta zeros.
func LayerNorm(x, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return apply1(layerNorm{Eps: eps}, x, featureOr(gamma, x, 1), featureOr(beta, x, 0))
}

// featureOr returns t or, if it is nil, a vector of value in the size of x's last dim.
func featureOr(t, x *Tensor, value float64) *Tensor {
	if t != nil {
		return t
	}
	return Full(x.Scope(), x.DType(), array.Shape{x.Dim(-1)}, value)
}

// layerNorm also returns each row's mean and 1/standard deviation, which its gradient needs.
type layerNorm struct{ Eps float64 }

func (layerNorm) Name() string   { return "layer_norm" }
func (layerNorm) InPlace() []int { return []int{0, -1, -1} }

func (layerNorm) Infer(in []Type) ([]Type, error) {
	if err := inferNorm(in, 3); err != nil {
		return nil, err
	}
	return []Type{in[0], statOf(in[0]), statOf(in[0])}, nil
}

// inferNorm checks x, whose last dim is normalized, and operands of that dim's size.
func inferNorm(in []Type, n int) error {
	if err := wantCompute(in, n); err != nil {
		return err
	}
	if len(in[0].Shape) == 0 {
		return fmt.Errorf("want a dim to normalise: got %v", in[0])
	}
	for _, t := range in[1:] {
		if d := in[0].Shape[len(in[0].Shape)-1]; len(t.Shape) != 1 || t.Shape[0] != d {
			return fmt.Errorf("weights %v do not fit the last dim of %v", t, in[0])
		}
	}
	return nil
}

// statOf returns the type of one number for each row of x, in the dtype in which x is computed.
func statOf(x Type) Type {
	return Type{DType: x.DType.Compute(), Shape: x.Shape[:len(x.Shape)-1].Clone()}
}

func (o layerNorm) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], -1), in) }

func (o layerNorm) define(j joint, in []*Tensor) []*Tensor {
	x, gamma, beta := wide(in[0]), wide(in[1]), wide(in[2])
	mean := j.mean(Sum(x, -1))
	centred := Sub(x, lastOf(mean, x))
	rstd := Rsqrt(AddScalar(j.mean(Sum(Square(centred), -1)), o.Eps))
	y := Add(Mul(Mul(centred, lastOf(rstd, x)), gamma), beta)
	return []*Tensor{Cast(y, in[0].DType()), mean, rstd}
}

// meanLast returns the mean over the last dim.
func meanLast(x *Tensor) *Tensor { return MulScalar(Sum(x, -1), 1/float64(x.Dim(-1))) }

func (layerNorm) VJP(in, out, dout []*Tensor) []*Tensor {
	grads := make([]*Tensor, 3)
	if dout[0] != nil {
		copy(grads, ir.Apply(layerNormGrad{}, in[0], in[1], dout[0], out[1], out[2]))
		grads[2] = Cast(grads[2], in[2].DType())
	}
	stats := normStats{x: in[0], mean: out[1], rstd: out[2]}
	grads[0] = plus(grads[0], stats.grad(dout[1], dout[2]))
	return grads
}

// normStats holds the saved statistics of the rows of x; RMS norm has no mean.
type normStats struct{ x, mean, rstd *Tensor }

// grad returns the contribution of the statistics' gradients to that of x. These are nonzero in second
// derivatives only.
func (s normStats) grad(dmean, drstd *Tensor) *Tensor {
	x, n := wide(s.x), float64(s.x.Dim(-1))
	var dx *Tensor
	if dmean != nil {
		dx = Expand(lastOf(MulScalar(dmean, 1/n), x), x.Shape()...)
	}
	if drstd != nil {
		slope := MulScalar(Mul(drstd, Mul(s.rstd, Square(s.rstd))), -1/n)
		if s.mean != nil {
			x = Sub(x, lastOf(s.mean, x))
		}
		dx = plus(dx, Mul(x, lastOf(slope, x)))
	}
	if dx == nil {
		return nil
	}
	return Cast(dx, s.x.DType())
}

func (layerNorm) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	last := word[len(lead):]
	return mesh.Rule(word + "," + last + "," + last + "->" + word + "," + lead + "," + lead)
}

// CooperativeRule and Cooperate let devices split the last dim.
func (o layerNorm) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o layerNorm) Cooperate(at *Place, in []*Tensor) []*Tensor { return o.define(at.lastJoint(), in) }

func (layerNorm) Work(in, out []Type) Work {
	return Work{Flops: 8 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o layerNorm) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalLayerNorm[float32](env, o, in, out) },
		func() { evalLayerNorm[float64](env, o, in, out) })
}

func evalLayerNorm[T floats](env *Env, o layerNorm, in, out []array.Array) {
	rows, n := rowsOf(in[0].Shape())
	x, gamma, beta := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2])
	y, mean, rstd := array.Data[T](out[0]), array.Data[T](out[1]), array.Data[T](out[2])
	env.rows(rows, n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			mean[i], rstd[i] = kernel.LayerNormRow(y[i*n:(i+1)*n], x[i*n:(i+1)*n], gamma, beta, T(o.Eps))
		}
	})
}

func (o layerNorm) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (layerNorm) Samples() []Sample {
	return []Sample{
		{Op: layerNorm{Eps: 1e-5}, In: []Arg{f32(5, 7, 6), f32(6), f32(6)}},
		{Op: layerNorm{Eps: 1e-5}, In: []Arg{f32(150, 19), f32(19), f32(19)}},
		{Op: layerNorm{Eps: 1e-3}, In: []Arg{f32(9), f32(9), f32(9)}},
	}
}
