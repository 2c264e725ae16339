package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Dropout zeroes each element with probability rate and scales the others by 1/(1−rate). The mask depends on
// key alone; at rate 0 the result is x. [Srivastava et al. 2014]
func Dropout(x *Tensor, key Key, rate float64) *Tensor {
	if x.Err() != nil || rate == 0 {
		return x
	}
	return apply1(dropout{Rate: rate}, x, Bernoulli(x.Scope(), key, 1-rate, array.Bool, x.Shape()))
}

// DropoutAt is like Dropout with another mask at each step, an i64 scalar: a compiled training step gets a
// new mask whenever it runs.
func DropoutAt(x, step *Tensor, key Key, rate float64) *Tensor {
	if x.Err() != nil || rate == 0 {
		return x
	}
	return apply1(dropout{Rate: rate}, x, BernoulliAt(step, key, 1-rate, array.Bool, x.Shape()))
}

// DropoutZigzag is like DropoutAt for x whose dims are in the zigzag order of parts: it zeroes the elements
// that it would zero if x were in order.
func DropoutZigzag(x, step *Tensor, key Key, rate float64, parts int, dims ...int) *Tensor {
	if x.Err() != nil || rate == 0 {
		return x
	}
	mask := BernoulliAt(step, key, 1-rate, array.Bool, x.Shape())
	for _, d := range dims {
		mask = ZigzagRows(mask, d, parts)
	}
	return apply1(dropout{Rate: rate}, x, mask)
}

// dropout scales the kept elements and zeroes the others. The mask is an operand of one byte per element: the
// gradient uses the same mask, and x may be split independently of how the mask was made.
type dropout struct{ Rate float64 }

func (dropout) Name() string             { return "dropout" }
func (dropout) Linear() [][]int          { return [][]int{{0}} }
func (dropout) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 2, 1) }
func (dropout) InPlace() []int           { return []int{0} }

func (o dropout) Infer(in []Type) ([]Type, error) {
	if !(0 <= o.Rate && o.Rate <= 1) {
		return nil, fmt.Errorf("rate is %g: want a number between 0 and 1", o.Rate)
	}
	if len(in) != 2 || !in[0].DType.IsFloat() || in[1].DType != array.Bool {
		return nil, fmt.Errorf("want floats and a mask of truth values: got %v", in)
	}
	return in[:1], wantSameShape(in)
}

func (o dropout) scale() float64 {
	if o.Rate == 1 {
		return 0 // nothing is kept
	}
	return 1 / (1 - o.Rate)
}

func (o dropout) Decompose(in []*Tensor) []*Tensor {
	return []*Tensor{Where(in[1], MulScalar(in[0], o.scale()), Const(in[0], 0))}
}

func (o dropout) VJP(in, _, dy []*Tensor) []*Tensor { return []*Tensor{apply1(o, dy[0], in[1]), nil} }

func (dropout) Work(in, out []Type) Work {
	return Work{Flops: float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o dropout) Eval(env *Env, in, out []array.Array) {
	float(out[0],
		func() { dropOver[float32, uint32](env, in, out, o.scale()) },
		func() { dropOver[float64, uint64](env, in, out, o.scale()) })
}

// dropOver scales all elements, then clears the bits of dropped ones: a branch on the mask could not be
// predicted.
func dropOver[T floats, B bits](env *Env, in, out []array.Array, scale float64) {
	dst, x := array.Data[T](out[0]), array.Data[T](in[0])
	raw, keep := array.Raw[B](out[0]), array.Raw[uint8](in[1])
	env.split(len(dst), func(lo, hi int) {
		kernel.MulScalar(dst[lo:hi], x[lo:hi], T(scale))
		part := keep[lo:hi]
		for i, b := range raw[lo:hi] {
			raw[lo+i] = b & -B(part[i])
		}
	})
}

func (o dropout) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (dropout) Samples() []Sample {
	return []Sample{
		{Op: dropout{Rate: 0.3}, In: []Arg{f32(5, 7), bools(5, 7)}},
		{Op: dropout{}, In: []Arg{f32(5, 7), bools(5, 7)}},
	}
}
