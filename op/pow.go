package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Pow returns each element to the power of exponent. Negative elements have integer powers only; x⁰ is one
// for all x.
func Pow(x *Tensor, exponent float64) *Tensor { return apply1(pow{Exponent: exponent}, x) }

type pow struct {
	unary
	Exponent float64
}

func (pow) Name() string { return "pow" }

func (o pow) VJP(in, _, dy []*Tensor) []*Tensor {
	x, e := in[0], o.Exponent
	switch e {
	case 0: // the general formula is 0·∞ at zero
		return []*Tensor{ZerosLike(x)}
	case 1:
		return []*Tensor{dy[0]}
	case 2:
		return []*Tensor{Mul(dy[0], MulScalar(x, 2))}
	}
	return []*Tensor{Mul(dy[0], MulScalar(Pow(x, e-1), e))}
}

func (o pow) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, powKernel[float32](o.Exponent), powKernel[float64](o.Exponent))
}

// powKernel has fast loops for the exponents that models use.
func powKernel[T floats](e float64) func(dst, x []T) {
	switch e {
	case 1:
		return func(dst, x []T) { copy(dst, x) }
	case 2:
		return kernel.Square[T]
	case 3:
		return each1(func(x T) T { return x * x * x })
	case 0.5:
		return kernel.Sqrt[T]
	case -0.5:
		return kernel.Rsqrt[T]
	case -1:
		return kernel.Reciprocal[T]
	}
	return each1(func(x T) T { return T(math.Pow(float64(x), e)) })
}

// Loop returns a map if the exponent has a fast loop.
func (o pow) Loop(_, _ []Type) (Loop, bool) {
	f, ok := powLanes[o.Exponent]
	return Loop{Kind: LoopMap, Lane: func(b *lane.Builder, in []lane.Arg) lane.Arg { return f(b, in[0]) }}, ok
}

var powLanes = map[float64]func(b *lane.Builder, x lane.Arg) lane.Arg{
	1:    func(_ *lane.Builder, x lane.Arg) lane.Arg { return x },
	2:    func(b *lane.Builder, x lane.Arg) lane.Arg { return b.Mul(x, x) },
	3:    func(b *lane.Builder, x lane.Arg) lane.Arg { return b.Mul(b.Mul(x, x), x) },
	0.5:  (*lane.Builder).Sqrt,
	-0.5: (*lane.Builder).Rsqrt,
	-1:   (*lane.Builder).Reciprocal,
}

func (o pow) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("power", "", in[0].Type, in[0], w.Constant(in[0].Type, o.Exponent))}
}

func (pow) Samples() []Sample {
	return []Sample{
		{Op: pow{Exponent: 0}, In: []Arg{f32(5, 7)}},
		{Op: pow{Exponent: 1}, In: []Arg{f32(5, 7)}},
		{Op: pow{Exponent: 2}, In: []Arg{f32(5, 7)}},
		{Op: pow{Exponent: 3}, In: []Arg{f32(5, 7)}},
		{Op: pow{Exponent: 5}, In: []Arg{f32(5, 7)}},
		{Op: pow{Exponent: -2}, In: []Arg{f32In(-2, -0.5, 5, 7)}},
		{Op: pow{Exponent: 0.5}, In: []Arg{f32In(0.2, 4, 5, 7)}},
		{Op: pow{Exponent: -1.7}, In: []Arg{f32In(0.3, 3, 5, 7)}},
	}
}
