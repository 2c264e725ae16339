package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// slope is embedded by fused gradients of unary ops: they compute the operand's gradient from an operand and
// the result's gradient.
type slope struct{}

func (slope) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 2); err != nil {
		return nil, err
	}
	return []Type{in[0]}, wantSameShape(in)
}

func (slope) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 2, 1) }
func (slope) InPlace() []int           { return []int{1} }
func (slope) Samples() []Sample        { return oneSample(f32(5, 7), f32(5, 7)) }

func (slope) Work(in, out []Type) Work { return fusedWork(in, out) }

// fusedFlops is the approximate cost per element of an activation function.
const fusedFlops = 8

func fusedWork(in, out []Type) Work {
	return Work{Flops: fusedFlops * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

// mapBinary runs a kernel over two operands of the same shape.
func mapBinary(env *Env, in, out []array.Array, f32 func(dst, x, y []float32),
	f64 func(dst, x, y []float64)) {
	float(out[0],
		func() { mapOver2(env, out[0], in[0], in[1], f32) },
		func() { mapOver2(env, out[0], in[0], in[1], f64) })
}

func mapOver2[T array.Elem](env *Env, out, x, y array.Array, f func(dst, x, y []T)) {
	dst, xs, ys := array.Data[T](out), array.Data[T](x), array.Data[T](y)
	env.split(len(dst), func(lo, hi int) { f(dst[lo:hi], xs[lo:hi], ys[lo:hi]) })
}
