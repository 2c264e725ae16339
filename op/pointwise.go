package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// unary is embedded by elementwise functions of one float operand.
type unary struct{}

func (unary) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return []Type{in[0]}, nil
}

func (unary) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 1, 1) }
func (unary) Samples() []Sample        { return oneSample(f32(5, 7)) }
func (unary) InPlace() []int           { return []int{0} }

func (unary) Work(in, out []Type) Work {
	return Work{Flops: float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

// wantFloats checks that there are n operands, all of the same float dtype.
func wantFloats(in []Type, n int) error {
	if err := wantSame(in, n); err != nil {
		return err
	}
	if !in[0].DType.IsFloat() {
		return fmt.Errorf("want a float operand: got %v", in[0])
	}
	return nil
}

// wantSums checks that there are n operands of one dtype with sums and products: floats or integers.
func wantSums(in []Type, n int) error {
	if err := wantSame(in, n); err != nil {
		return err
	}
	if d := in[0].DType; !d.IsFloat() && d != array.I32 && d != array.I64 {
		return fmt.Errorf("want floats, i32 or i64: got %v", in[0])
	}
	return nil
}

// wantSame checks that there are n operands, all of one dtype.
func wantSame(in []Type, n int) error {
	if len(in) != n {
		return fmt.Errorf("want %d operands: got %d", n, len(in))
	}
	for _, t := range in[1:] {
		if t.DType != in[0].DType {
			return fmt.Errorf("operands differ in dtype: got %v and %v: cast one of them", in[0], t)
		}
	}
	return nil
}

// mapUnary runs a kernel over all elements.
func mapUnary(env *Env, in, out []array.Array, f32 func(dst, x []float32), f64 func(dst, x []float64)) {
	float(out[0], func() { mapOver(env, out[0], in[0], f32) }, func() { mapOver(env, out[0], in[0], f64) })
}

func mapOver[T array.Elem](env *Env, out, in array.Array, f func(dst, x []T)) {
	dst, x := array.Data[T](out), array.Data[T](in)
	env.split(len(dst), func(lo, hi int) { f(dst[lo:hi], x[lo:hi]) })
}

// arith is embedded by arithmetic on two operands that are broadcast together.
type arith struct{}

func (arith) Infer(in []Type) ([]Type, error) {
	if err := wantSame(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType == array.Bool {
		return nil, fmt.Errorf("want numbers: got %v and %v", in[0], in[1])
	}
	shape, err := broadcastShapes(in[0].Shape, in[1].Shape)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (arith) Rule(in []Type) mesh.Rule { return broadcastRule(in) }
func (arith) InPlace() []int           { return []int{0} }

func (arith) Work(in, out []Type) Work {
	return Work{Flops: float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (arith) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7), f32(5, 7)}},
		{In: []Arg{f32(5, 1, 7), f32(6, 1)}},
		{In: []Arg{f32(5, 7), f32()}},
		{In: []Arg{f32(3, 1), f32(2, 3, 4)}},
	}
}

// kernels2 holds a binary kernel for each numeric dtype.
type kernels2 struct {
	f32 func(dst, x, y []float32)
	f64 func(dst, x, y []float64)
	i64 func(dst, x, y []int64)
	i32 func(dst, x, y []int32)
	u8  func(dst, x, y []uint8)
}

func (k kernels2) run(env *Env, in, out []array.Array) {
	switch out[0].DType() {
	case array.F32:
		zip2(env, out[0], in[0], in[1], k.f32)
	case array.F64:
		zip2(env, out[0], in[0], in[1], k.f64)
	case array.I64:
		zip2(env, out[0], in[0], in[1], k.i64)
	case array.I32:
		zip2(env, out[0], in[0], in[1], k.i32)
	case array.U8:
		zip2(env, out[0], in[0], in[1], k.u8)
	}
}

type integer interface{ int64 | int32 | uint8 }

// each2 makes a kernel from a function of two elements.
func each2[T, U any](f func(x, y T) U) func(dst []U, x, y []T) {
	return func(dst []U, x, y []T) {
		for i := range dst {
			dst[i] = f(x[i], y[i])
		}
	}
}
