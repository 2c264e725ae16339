package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Prod returns the product over dims, which are dropped; no dims means all. Products of integers are i64.
func Prod(x *Tensor, dims ...int) *Tensor {
	return apply1(prod{Dims: normDims(len(x.Shape()), dims)}, counted(x))
}

type prod struct{ Dims []int }

func (prod) Name() string { return "prod" }

func (o prod) Infer(in []Type) ([]Type, error) {
	if err := wantSums(in, 1); err != nil {
		return nil, err
	}
	return inferReduced(in, o.Dims, in[0].DType)
}

// VJP differentiates the decomposition, because dividing the product by each element would fail at zeros.
func (o prod) VJP(in, _, dy []*Tensor) []*Tensor { return vjpByParts(o, in, dy) }

// Decompose multiplies the halves of each reduced dim until one element is left.
func (o prod) Decompose(in []*Tensor) []*Tensor {
	x := in[0]
	for _, d := range o.Dims {
		if x.Dim(d) == 0 {
			shape := x.Shape().Clone()
			shape[d] = 1
			x = Full(x.Scope(), x.DType(), shape, 1)
		}
		for x.Dim(d) > 1 {
			n := x.Dim(d)
			y := Mul(Narrow(x, d, 0, n/2), Narrow(x, d, n/2, n/2*2))
			if n%2 == 1 {
				y = Concat([]*Tensor{y, Narrow(x, d, n-1, n)}, d)
			}
			x = y
		}
	}
	shape, _ := reducedShape(in[0].Type(), o.Dims)
	return []*Tensor{Reshape(x, shape...)}
}

func (o prod) Rule(in []Type) mesh.Rule { return reduceRule(len(in[0].Shape), o.Dims, "prod") }
func (prod) Work(in, out []Type) Work   { return onePass(in, out) }

func (o prod) Eval(env *Env, in, out []array.Array) {
	if foldInts(env, in[0], out[0], o.Dims, foldOf(1, mulInt[int64]), foldOf(1, mulInt[int32])) {
		return
	}
	float(out[0],
		func() { prodFold[float32]().run(env, in[0], out[0], o.Dims) },
		func() { prodFold[float64]().run(env, in[0], out[0], o.Dims) })
}

func prodFold[T floats]() folding[T] {
	row := func(xs []T) T {
		acc := 1.0
		for _, x := range xs {
			acc *= float64(x)
		}
		return T(acc)
	}
	return folding[T]{row: row, pair: kernel.Mul[T], none: 1}
}

func (o prod) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitFold(w, "multiply", in[0], 1, o.Dims, out[0])}
}

func (prod) Samples() []Sample {
	of := func(dims ...int) Op { return prod{Dims: dims} }
	samples := reductionSamples(func(shape ...int) Arg { return f32In(0.5, 1.5, shape...) }, of)
	return append(samples, Sample{Op: of(1), In: []Arg{i32Below(3, 5, 7, 6)}})
}
