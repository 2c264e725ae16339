package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// AdamConfig holds the hyperparameters of Adam.
type AdamConfig struct{ Beta1, Beta2, Eps, WeightDecay float64 }

// AdamState holds the operands of one Adam step on one parameter.
type AdamState struct {
	// Param is the parameter to update, Grad its gradient, M and V its first and second moment.
	Param, Grad, M, V *Tensor
	// LR, Step and GradScale are scalars: the learning rate, the number of this step, counted from 1 and of any
	// dtype, and a factor that the gradient is multiplied by first.
	LR, Step, GradScale *Tensor
}

// AdamW returns one step of Adam with decoupled weight decay: the new parameter and moments.
func AdamW(s AdamState, c AdamConfig) (param, m, v *Tensor) {
	return s.apply(adamw{Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, WeightDecay: c.WeightDecay})
}

// Adam returns one step of Adam, in which weight decay is a part of the gradient.
func Adam(s AdamState, c AdamConfig) (param, m, v *Tensor) {
	return s.apply(adamw{Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, WeightDecay: c.WeightDecay, Coupled: true})
}

func (s AdamState) apply(o adamw) (param, m, v *Tensor) {
	r := ir.Apply(o, s.Param, s.Grad, s.M, s.V, s.LR, s.Step, s.GradScale)
	return r[0], r[1], r[2]
}

// adamw updates a parameter and its moments in place. With Coupled, weight decay is added to the gradient, as
// in Adam; otherwise it is decoupled, as in AdamW.
type adamw struct {
	Beta1, Beta2, Eps, WeightDecay float64
	Coupled                        bool
}

func (adamw) Name() string       { return "adamw" }
func (adamw) NoGradient() string { return "it is an optimizer's update" }
func (adamw) InPlace() []int     { return []int{0, 2, 3} }

func (adamw) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

func (adamw) Infer(in []Type) ([]Type, error) {
	if len(in) != 7 {
		return nil, fmt.Errorf("want 7 operands: got %d", len(in))
	}
	if err := inferUpdate(in[:4], in[4:]); err != nil {
		return nil, err
	}
	return []Type{in[0], in[2], in[3]}, nil
}

// inferUpdate checks that tensors have the parameter's shape and that scalars are scalars.
func inferUpdate(tensors, scalars []Type) error {
	if err := wantCompute(tensors, len(tensors)); err != nil {
		return err
	}
	for _, t := range tensors {
		if !t.Shape.Equal(tensors[0].Shape) {
			return fmt.Errorf("gradient or state %v does not fit the parameter %v", t, tensors[0])
		}
	}
	for _, t := range scalars {
		if len(t.Shape) != 0 || t.DType == array.Bool {
			return fmt.Errorf("want a scalar for a rate, step or scale: got %v", t)
		}
	}
	return nil
}

func (o adamw) Decompose(in []*Tensor) []*Tensor {
	p, m, v := wide(in[0]), wide(in[2]), wide(in[3])
	lr, step, scale := Cast(in[4], p.DType()), Cast(in[5], p.DType()), Cast(in[6], p.DType())
	g := Mul(wide(in[1]), scale)
	if o.Coupled {
		g = Add(g, MulScalar(p, o.WeightDecay))
	} else {
		p = Sub(p, Mul(p, MulScalar(lr, o.WeightDecay)))
	}
	// Expm1 keeps 1-β^t accurate for a small t, where the plain difference cancels.
	bias := func(beta float64) *Tensor { return Neg(Expm1(MulScalar(step, math.Log(beta)))) }
	m = Add(MulScalar(m, o.Beta1), MulScalar(g, 1-o.Beta1))
	v = Add(MulScalar(v, o.Beta2), MulScalar(Square(g), 1-o.Beta2))
	rms := AddScalar(Div(Sqrt(v), Sqrt(bias(o.Beta2))), o.Eps)
	p = Sub(p, Mul(Div(lr, bias(o.Beta1)), Div(m, rms)))
	return []*Tensor{Cast(p, in[0].DType()), Cast(m, in[2].DType()), Cast(v, in[3].DType())}
}

func (adamw) Rule(in []Type) mesh.Rule {
	w := factors(0, len(in[0].Shape))
	return mesh.Rule(w + "," + w + "," + w + "," + w + ",,,->" + w + "," + w + "," + w)
}

func (adamw) Work(in, out []Type) Work {
	return Work{Flops: 14 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o adamw) Eval(env *Env, in, out []array.Array) {
	step := in[5].At(0)
	c := kernel.AdamWCoef{
		LR: in[4].At(0), Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.WeightDecay,
		Bias1: 1 - math.Pow(o.Beta1, step), Bias2: 1 - math.Pow(o.Beta2, step), GradScale: in[6].At(0),
	}
	float(out[0], func() { evalAdamW[float32](env, o, c, in, out) },
		func() { evalAdamW[float64](env, o, c, in, out) })
}

func evalAdamW[T floats](env *Env, o adamw, c kernel.AdamWCoef, in, out []array.Array) {
	p, g, m, v := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2]), array.Data[T](in[3])
	pOut, mOut, vOut := array.Data[T](out[0]), array.Data[T](out[1]), array.Data[T](out[2])
	if !o.Coupled || o.WeightDecay == 0 {
		env.split(len(p), func(lo, hi int) {
			kernel.AdamWStepTo(pOut[lo:hi], mOut[lo:hi], vOut[lo:hi], p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi], c)
		})
		return
	}
	scale := c.GradScale
	c.GradScale, c.WeightDecay = 1, 0
	eachPiece(env, len(p), func(lo, hi int, grad []T) {
		decayedGrad(grad, g[lo:hi], p[lo:hi], scale, o.WeightDecay)
		kernel.AdamWStepTo(pOut[lo:hi], mOut[lo:hi], vOut[lo:hi], p[lo:hi], grad, m[lo:hi], v[lo:hi], c)
	})
}

// eachPiece calls f for pieces of [0,n) that are small enough to stay in cache, with scratch memory of the
// piece's length.
func eachPiece[T floats](env *Env, n int, f func(lo, hi int, scratch []T)) {
	env.Pool.For(n, 8*grain, func(lo, hi int) {
		scratch := make([]T, min(hi-lo, zipPiece))
		for ; lo < hi; lo += len(scratch) {
			end := min(hi, lo+len(scratch))
			f(lo, end, scratch[:end-lo])
		}
	})
}

// decayedGrad sets dst = scale·g + decay·p.
func decayedGrad[T floats](dst, g, p []T, scale, decay float64) {
	kernel.MulScalar(dst, g, T(scale))
	if decay != 0 {
		kernel.Axpy(dst, T(decay), p)
	}
}

func (o adamw) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (adamw) Samples() []Sample {
	args := func(shape ...int) []Arg {
		return []Arg{f32(shape...), f32(shape...), f32(shape...), f32In(0.1, 1, shape...), f32In(0.01, 0.1),
			f32In(1, 9), f32In(0.5, 1)}
	}
	plain := adamw{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1}
	coupled := plain
	coupled.Coupled = true
	return []Sample{{Op: plain, In: args(5, 7)}, {Op: plain, In: args(150, 140)}, {Op: coupled, In: args(5, 7)},
		{Op: plain, In: args()}}
}
