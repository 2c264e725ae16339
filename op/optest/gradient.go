package optest

import (
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// VJP compares each gradient with central differences along a random direction.
func VJP(t *testing.T, o op.Op, args []op.Arg) {
	which := differentiable(o, args)
	if len(which) == 0 {
		return
	}
	d := Device(t, 1)
	in := Fill(args, array.F64, 11)
	v := directions(in, which)
	value := func(h float64) float64 {
		y := weighted(o, Tensors(d.NewSession(), moveAlong(in, v, which, h)))
		if y == nil {
			return 0
		}
		return Read(t, y).At(0)
	}
	s := d.NewSession()
	xs := Tensors(s, in)
	y := weighted(o, xs)
	if y == nil {
		return
	}
	var grads []array.Array
	for _, g := range op.Grad([]*op.Tensor{y}, nil, pick(xs, which)) {
		grads = append(grads, Read(t, g))
	}
	Near(t, dots(grads, v), (value(step)-value(-step))/(2*step), 1e-6)
}

// SecondDerivative compares Hessian-vector products with central differences of gradients.
func SecondDerivative(t *testing.T, o op.Op, args []op.Arg) {
	which := differentiable(o, args)
	if len(which) == 0 {
		return
	}
	d := Device(t, 1)
	in := Fill(args, array.F64, 13)
	v := directions(in, which)
	gradient := func(h float64) ([]*op.Tensor, []*op.Tensor) {
		xs := Tensors(d.NewSession(), moveAlong(in, v, which, h))
		y := weighted(o, xs)
		if y == nil {
			return nil, nil
		}
		return op.Grad([]*op.Tensor{y}, nil, pick(xs, which)), pick(xs, which)
	}
	along := func(g []*op.Tensor) float64 {
		var as []array.Array
		for _, x := range g {
			as = append(as, Read(t, x))
		}
		return dots(as, v)
	}
	g, xs := gradient(0)
	if g == nil {
		return
	}
	dg := make([]*op.Tensor, len(v))
	for i := range v {
		dg[i] = constant(g[i], v[i])
	}
	up, _ := gradient(step)
	down, _ := gradient(-step)
	Near(t, along(op.Grad(g, dg, xs)), (along(up)-along(down))/(2*step), 1e-5)
}

// weighted is Σ⟨out, ct⟩ over the float results of o, with fixed pseudo-random cotangents.
func weighted(o op.Op, in []*op.Tensor) *op.Tensor {
	var total *op.Tensor
	for i, y := range ir.Apply(o, in...) {
		if y.Err() != nil {
			return y
		}
		if !y.DType().IsFloat() {
			continue
		}
		y = op.Cast(y, array.F64)
		n := y.Shape().Len()
		cts := make([]float64, n)
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for j := range cts {
			cts[j] = rng.NormFloat64()
		}
		ct := array.FromSlice(cts, y.Shape()...)
		s := op.Sum(op.Mul(y, constant(y, ct)))
		if total == nil {
			total = s
		} else {
			total = op.Add(total, s)
		}
	}
	return total
}

// constant returns a as a tensor beside x: data in an eager session, captured by a trace.
func constant(x *op.Tensor, a array.Array) *op.Tensor {
	if s, ok := x.Scope().(*cpu.Session); ok {
		return s.Tensor(a)
	}
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	return d.NewSession().Tensor(a)
}

func differentiable(o op.Op, args []op.Arg) []int {
	if _, no := o.(op.Undifferentiable); no {
		return nil
	}
	var xs []int
	for i, a := range args {
		if a.Type.DType.IsFloat() {
			xs = append(xs, i)
		}
	}
	return xs
}

func pick[T any](xs []T, which []int) []T {
	out := make([]T, len(which))
	for i, w := range which {
		out[i] = xs[w]
	}
	return out
}

// moveAlong is in + h·v for the operands in which.
func moveAlong(in, v []array.Array, which []int, h float64) []array.Array {
	out := append([]array.Array(nil), in...)
	for k, i := range which {
		out[i] = in[i].Clone()
		xs := array.Data[float64](out[i])
		for j := range xs {
			xs[j] += h * array.Data[float64](v[k])[j]
		}
	}
	return out
}

func directions(in []array.Array, which []int) []array.Array {
	rng := rand.New(rand.NewPCG(3, 3))
	out := make([]array.Array, len(which))
	for k, i := range which {
		out[k] = array.New(array.F64, in[i].Shape()...)
		for j := range out[k].Len() {
			array.Data[float64](out[k])[j] = rng.NormFloat64()
		}
	}
	return out
}

func dots(xs, ys []array.Array) float64 {
	s := 0.0
	for i := range xs {
		for j := range xs[i].Len() {
			s += xs[i].At(j) * ys[i].At(j)
		}
	}
	return s
}

// step is how far central differences go.
const step = 1e-5
