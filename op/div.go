package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Div returns x / y, broadcast together. Integers are divided towards zero; integers divided by zero have all
// bits set.
func Div(x, y *Tensor) *Tensor { return apply1(div{}, x, y) }

type div struct{ arith }

func (div) Name() string    { return "div" }
func (div) Linear() [][]int { return [][]int{{0}} }

func (div) VJP(in, z, dz []*Tensor) []*Tensor {
	dx := Div(dz[0], in[1])
	return []*Tensor{SumTo(dx, in[0].Shape()), SumTo(Neg(Mul(dx, z[0])), in[1].Shape())}
}

// expand solves Leibniz's rule for x = z·y for the last derivative of z.
func (div) expand(k int, in []*series, z *series) *Tensor {
	x, y := in[0], in[1]
	var sum *Tensor
	for i := 1; i <= k; i++ {
		if a, b := y.at(i), z.at(k-i); a != nil && b != nil {
			sum = sumOf(sum, times(Mul(a, b), binomial(k, i)))
		}
	}
	switch d := x.at(k); {
	case d != nil && sum != nil:
		sum = Sub(d, sum)
	case d != nil:
		sum = d
	case sum != nil:
		sum = Neg(sum)
	default:
		return nil
	}
	return broadcastLike(Div(sum, y.value), z.value)
}

func (div) Eval(env *Env, in, out []array.Array) {
	kernels2{
		kernel.Div[float32], kernel.Div[float64],
		each2(divInt[int64]), each2(divInt[int32]), each2(divInt[uint8]),
	}.run(env, in, out)
}

// divInt defines division by zero as XLA does, because a kernel must not panic on data.
func divInt[T integer](x, y T) T {
	if y == 0 {
		return ^T(0)
	}
	return x / y
}

func (div) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Div(in[0], in[1]) }

func (div) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitBinary(w, "divide", in, out[0])
}

// Quotient returns numerator and denominator of a value, and whether it is a quotient.
func Quotient(x *Tensor) (numerator, denominator *Tensor, ok bool) {
	if n := x.Node(); n != nil {
		if _, ok := n.Op().(div); ok {
			return n.In()[0], n.In()[1], true
		}
	}
	return nil, nil, false
}

func (div) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7), f32In(0.5, 2, 5, 7)}},
		{In: []Arg{f32(5, 1, 7), f32In(-2, -0.5, 6, 1)}},
		{In: []Arg{f32(5, 7), f32In(0.5, 2)}},
		{In: []Arg{f32(3, 1), f32In(0.5, 2, 2, 3, 4)}},
	}
}
