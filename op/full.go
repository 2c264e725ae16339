package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Full returns a tensor filled with one value.
func Full(s Scope, dtype array.DType, shape array.Shape, value float64) *Tensor {
	return s.Apply(full{DType: dtype, Shape: shape, Value: value}, nil)[0]
}

// Const returns a scalar of x's dtype in x's scope, for use as the other operand of an op on x.
func Const(x *Tensor, value float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Full(x.Scope(), x.DType(), nil, value)
}

// Zeros returns a tensor of zeros.
func Zeros(s Scope, dtype array.DType, shape ...int) *Tensor { return Full(s, dtype, shape, 0) }

// Ones returns a tensor of ones.
func Ones(s Scope, dtype array.DType, shape ...int) *Tensor { return Full(s, dtype, shape, 1) }

// ZerosLike returns zeros with x's dtype and shape.
func ZerosLike(x *Tensor) *Tensor { return Full(x.Scope(), x.DType(), x.Shape(), 0) }

// OnesLike returns ones with x's dtype and shape.
func OnesLike(x *Tensor) *Tensor { return Full(x.Scope(), x.DType(), x.Shape(), 1) }

type full struct {
	source
	DType array.DType
	Shape []int
	Value float64
}

func (full) Name() string { return "full" }

func (o full) Infer(in []Type) ([]Type, error) { return inferSource(in, o.DType, o.Shape) }

func (o full) Rule([]Type) mesh.Rule { return mesh.Rule("->" + factors(0, len(o.Shape))) }

func (o full) Localize(at *Place) (Op, error) {
	o.Shape = at.OutShape(0)
	return o, nil
}

func (o full) Eval(env *Env, _, out []array.Array) {
	b := out[0].Bytes()
	n := len(b)
	if n == 0 {
		return
	}
	pattern := encode(o.DType, o.Value)
	env.Pool.For(n/len(pattern), 1<<15, func(lo, hi int) {
		part := b[lo*len(pattern) : hi*len(pattern)]
		for done := copy(part, pattern); done < len(part); {
			done += copy(part[done:], part[:done])
		}
	})
}

// encode returns the bytes of one element.
func encode(d array.DType, v float64) []byte {
	a := array.New(d)
	a.Set(0, v)
	return a.Bytes()
}

func (o full) Loop(_, _ []Type) (Loop, bool) {
	return Loop{Kind: LoopConstant, Value: o.Value}, true
}

func (o full) Emit(w *hlo.Writer, _ []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Constant(hloType(out[0]), o.Value)}
}

func (full) Samples() []Sample {
	return []Sample{
		{Op: full{DType: array.F32, Shape: []int{5, 7}, Value: 0.5}},
		{Op: full{DType: array.F32, Value: math.Inf(-1)}},
	}
}

// source is embedded by ops without operands.
type source struct{ mover }

func (source) VJP(_, _, _ []*Tensor) []*Tensor { return nil }
func (source) NoGradient() string              { return "it has no operands" }

func inferSource(in []Type, dtype array.DType, shape array.Shape) ([]Type, error) {
	switch {
	case len(in) != 0:
		return nil, fmt.Errorf("want no operands: got %d", len(in))
	case dtype == array.Invalid:
		return nil, fmt.Errorf("dtype is missing")
	case !shape.Valid():
		return nil, fmt.Errorf("shape %v is not valid", shape)
	}
	return []Type{{DType: dtype, Shape: shape}}, nil
}
