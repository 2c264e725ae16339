package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// numeric is embedded by functions of one operand that support integers as well.
type numeric struct{ unary }

func (numeric) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if in[0].DType == array.Bool {
		return nil, fmt.Errorf("want numbers: got %v", in[0])
	}
	return []Type{in[0]}, nil
}

// kernels1 holds a unary kernel for each numeric dtype.
type kernels1 struct {
	f32 func(dst, x []float32)
	f64 func(dst, x []float64)
	i64 func(dst, x []int64)
	i32 func(dst, x []int32)
	u8  func(dst, x []uint8)
}

func (k kernels1) run(env *Env, in, out []array.Array) {
	switch out[0].DType() {
	case array.F32:
		mapOver(env, out[0], in[0], k.f32)
	case array.F64:
		mapOver(env, out[0], in[0], k.f64)
	case array.I64:
		mapOver(env, out[0], in[0], k.i64)
	case array.I32:
		mapOver(env, out[0], in[0], k.i32)
	case array.U8:
		mapOver(env, out[0], in[0], k.u8)
	}
}

// each1 makes a kernel from a function of one element.
func each1[T, U any](f func(x T) U) func(dst []U, x []T) {
	return func(dst []U, x []T) {
		for i := range dst {
			dst[i] = f(x[i])
		}
	}
}

// constantAlmostEverywhere is embedded by ops whose gradient is zero almost everywhere.
type constantAlmostEverywhere struct{}

func (constantAlmostEverywhere) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }

func (constantAlmostEverywhere) NoGradient() string {
	return "it is constant almost everywhere: its gradient is zero"
}

// wantSameShape checks that all operands have one shape.
func wantSameShape(in []Type) error {
	for _, t := range in[1:] {
		if !t.Shape.Equal(in[0].Shape) {
			return fmt.Errorf("operands differ in shape: got %v and %v", in[0], t)
		}
	}
	return nil
}
