package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Linear returns x·wᵀ + b over the last dim of x, with w [out, in] and b [out]. A nil b means no bias. It is
// two ops, so that the contracted dim may be split over devices: the bias is added once, to the complete sum.
func Linear(x, w, b *Tensor) *Tensor { return addBias(MatMulT(x, w, false, true), b) }

// LinearT is like Linear with the weights stored as [in, out]: x·w + b.
func LinearT(x, w, b *Tensor) *Tensor { return addBias(MatMul(x, w), b) }

func addBias(y, b *Tensor) *Tensor {
	if b == nil {
		return y
	}
	return Add(y, b)
}

// FusedLinear is Linear as one op: the bias is added to a block of the product while that is in cache.
func FusedLinear(x, w, b *Tensor) *Tensor { return apply1(linear{}, x, w, b) }

// FusedLinearT is like FusedLinear with the weights stored as [in, out].
func FusedLinearT(x, w, b *Tensor) *Tensor { return apply1(linear{TransW: true}, x, w, b) }

// linear is a product with a bias added. TransW means that the weights are [in, out]. With Elsewhere, another
// device, which has another part of the sum, adds the bias.
type linear struct{ TransW, Elsewhere bool }

func (linear) Name() string    { return "linear" }
func (linear) Linear() [][]int { return [][]int{{1, 2}} }
func (linear) halfNative()     {}

func (o linear) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 3); err != nil {
		return nil, err
	}
	x, w, b := in[0].Shape, in[1].Shape, in[2].Shape
	if len(x) == 0 || len(w) != 2 || len(b) != 1 {
		return nil, fmt.Errorf("want rows, a matrix and a vector: got %v, %v and %v", in[0], in[1], in[2])
	}
	k, n := o.dims(w)
	if x[len(x)-1] != k {
		return nil, fmt.Errorf("cannot contract %v with %v: sizes %d and %d", x, w, x[len(x)-1], k)
	}
	if b[0] != n {
		return nil, fmt.Errorf("bias %v does not fit the weights %v: sizes %d and %d", b, w, b[0], n)
	}
	return []Type{{DType: in[0].DType, Shape: append(x[:len(x)-1].Clone(), n)}}, nil
}

// dims returns the numbers of inputs and outputs of weights w.
func (o linear) dims(w array.Shape) (k, n int) {
	if o.TransW {
		return w[0], w[1]
	}
	return w[1], w[0]
}

func (o linear) Decompose(in []*Tensor) []*Tensor {
	y := MatMulT(in[0], in[1], false, !o.TransW)
	if o.Elsewhere {
		return []*Tensor{y}
	}
	return []*Tensor{Add(y, in[2])}
}

func (o linear) VJP(in, _, dout []*Tensor) []*Tensor {
	x, w, d := in[0], in[1], dout[0]
	grads := []*Tensor{MatMulT(d, w, false, o.TransW), matmul{TransY: !o.TransW}.sharedGrad(x, d), nil}
	if !o.Elsewhere {
		grads[2] = SumTo(d, in[2].Shape())
	}
	return grads
}

func (o linear) Rule(in []Type) mesh.Rule {
	lead, w := factors(0, len(in[0].Shape)-1), "NK"
	if o.TransW {
		w = "KN"
	}
	return mesh.Rule(lead + "K," + w + ",N->" + lead + "N")
}

func (o linear) Localize(at *Place) (Op, error) {
	first, err := at.First(0, len(at.In[0].Shape)-1)
	o.Elsewhere = o.Elsewhere || !first
	return o, err
}

func (o linear) Work(in, out []Type) Work {
	k, _ := o.dims(in[1].Shape)
	return Work{Flops: (2*float64(k) + 1) * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o linear) Eval(env *Env, in, out []array.Array) {
	switch out[0].DType() {
	case array.F64:
		evalLinear(env, o, in, array.Data[float64](out[0]), operand64)
	case array.F32:
		evalLinear(env, o, in, array.Data[float32](out[0]), operand32)
	default: // 16-bit floats: accumulate in float32, round once
		sum := array.New(array.F32, out[0].Shape()...)
		evalLinear(env, o, in, array.Data[float32](sum), operand32)
		castInto(env, out[0], sum)
	}
}

func evalLinear[T floats](env *Env, o linear, in []array.Array, y []T,
	at func(array.Array, int, int, kernel.Trans) kernel.Operand[T]) {
	k, n := o.dims(in[1].Shape())
	if len(y) == 0 {
		return
	}
	var bias []T
	if !o.Elsewhere {
		bias = array.Data[T](widen(env, in[2]))
	}
	ldw, trans := k, kernel.Transpose
	if o.TransW {
		ldw, trans = n, kernel.NoTrans
	}
	kernel.Gemm[T]{
		M: len(y) / n, N: n, K: k, A: at(in[0], 0, k, kernel.NoTrans), B: at(in[1], 0, ldw, trans),
		C: y, Bias: bias,
	}.Run(env.Pool)
}

// Emit keeps 16-bit floats: product and bias become one call, which accumulates in float32.
func (o linear) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return emitAsIs(o, w, in) }

func (linear) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(2, 5, 7), f32(6, 7), f32(6)}},
		{Op: linear{TransW: true}, In: []Arg{f32(2, 5, 7), f32(7, 6), f32(6)}},
		{In: []Arg{f32(7), f32(6, 7), f32(6)}},
		{Op: linear{Elsewhere: true}, In: []Arg{f32(5, 7), f32(6, 7), f32(6)}},
		{Op: linear{TransW: true}, In: []Arg{f32(70, 37), f32(37, 41), f32(41)}},
	}
}
