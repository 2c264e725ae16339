package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// SGDConfig holds the hyperparameters of stochastic gradient descent.
type SGDConfig struct {
	Momentum, WeightDecay float64
	// Nesterov uses Nesterov momentum.
	Nesterov bool
}

// SGDState holds the operands of one SGD step on one parameter.
type SGDState struct {
	// Param is the parameter to update and Grad its gradient; Velocity starts as zeros and is nil without
	// momentum.
	Param, Grad, Velocity *Tensor
	// LR and GradScale are scalars: the learning rate, and a factor that the gradient is multiplied by first.
	LR, GradScale *Tensor
}

// SGD returns one step of gradient descent: the new parameter and velocity, which is nil without momentum.
func SGD(s SGDState, c SGDConfig) (param, velocity *Tensor) {
	o := sgd(c)
	if c.Momentum == 0 {
		return ir.Apply(o, s.Param, s.Grad, s.LR, s.GradScale)[0], nil
	}
	r := ir.Apply(o, s.Param, s.Grad, s.LR, s.GradScale, s.Velocity)
	return r[0], r[1]
}

// sgd takes param, gradient, learning rate, scale and, with momentum, the velocity.
type sgd struct {
	Momentum, WeightDecay float64
	Nesterov              bool
}

func (sgd) Name() string       { return "sgd" }
func (sgd) NoGradient() string { return "it is an optimizer's update" }
func (sgd) InPlace() []int     { return []int{0, 4} }

func (sgd) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

func (o sgd) Infer(in []Type) ([]Type, error) {
	if o.Momentum == 0 {
		if len(in) != 4 {
			return nil, fmt.Errorf("want 4 operands without momentum: got %d", len(in))
		}
		return in[:1:1], inferUpdate(in[:2], in[2:])
	}
	if len(in) != 5 {
		return nil, fmt.Errorf("want 5 operands with momentum: got %d", len(in))
	}
	return []Type{in[0], in[4]}, inferUpdate([]Type{in[0], in[1], in[4]}, in[2:4])
}

func (o sgd) Decompose(in []*Tensor) []*Tensor {
	p := wide(in[0])
	lr, scale := Cast(in[2], p.DType()), Cast(in[3], p.DType())
	g := Add(Mul(wide(in[1]), scale), MulScalar(p, o.WeightDecay))
	if o.Momentum == 0 {
		return []*Tensor{Cast(Sub(p, Mul(g, lr)), in[0].DType())}
	}
	v := Add(MulScalar(wide(in[4]), o.Momentum), g)
	step := v
	if o.Nesterov {
		step = Add(g, MulScalar(v, o.Momentum))
	}
	return []*Tensor{Cast(Sub(p, Mul(step, lr)), in[0].DType()), Cast(v, in[4].DType())}
}

func (o sgd) Rule(in []Type) mesh.Rule {
	w := factors(0, len(in[0].Shape))
	if o.Momentum == 0 {
		return mesh.Rule(w + "," + w + ",,->" + w)
	}
	return mesh.Rule(w + "," + w + ",,," + w + "->" + w + "," + w)
}

func (sgd) Work(in, out []Type) Work {
	return Work{Flops: 6 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o sgd) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalSGD[float32](env, o, in, out) }, func() { evalSGD[float64](env, o, in, out) })
}

func evalSGD[T floats](env *Env, o sgd, in, out []array.Array) {
	p, g, pOut := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](out[0])
	lr, scale := in[2].At(0), in[3].At(0)
	var v, vOut []T
	if o.Momentum != 0 {
		v, vOut = array.Data[T](in[4]), array.Data[T](out[1])
	}
	eachPiece(env, len(p), func(lo, hi int, step []T) {
		decayedGrad(step, g[lo:hi], p[lo:hi], scale, o.WeightDecay)
		if o.Momentum != 0 {
			next := vOut[lo:hi]
			kernel.MulScalar(next, v[lo:hi], T(o.Momentum))
			kernel.Add(next, next, step)
			if o.Nesterov {
				kernel.Axpy(step, T(o.Momentum), next)
			} else {
				step = next
			}
		}
		copy(pOut[lo:hi], p[lo:hi])
		kernel.Axpy(pOut[lo:hi], T(-lr), step)
	})
}

func (o sgd) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (sgd) Samples() []Sample {
	args := []Arg{f32(5, 7), f32(5, 7), f32In(0.01, 0.1), f32In(0.5, 1), f32(5, 7)}
	return []Sample{
		{Op: sgd{WeightDecay: 0.1}, In: args[:4]},
		{Op: sgd{Momentum: 0.9}, In: args},
		{Op: sgd{Momentum: 0.9, WeightDecay: 0.1, Nesterov: true}, In: args},
	}
}
