package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// QuantizedLinear returns x·wᵀ over the last dim of x for quantized weights w [out, in]: q [out, in·bits/8]
// holds bytes, or with 4 bits two elements per byte, the lower half first. An element means (q-zero)·scale,
// with scale [out, in/group], a float for each group of adjacent elements, and zero of the same shape, in
// bytes; a nil zero means the middle of the range, 8 or 128. Weights are dequantized a few rows at a time,
// forward and backward.
func QuantizedLinear(x, q, scale, zero *Tensor, bits, group int) *Tensor {
	in := []*Tensor{x, q, scale}
	if zero != nil {
		in = append(in, zero)
	}
	return apply1(quantizedLinear{Bits: bits, Group: group}, in...)
}

// quantizedLinear computes x·wᵀ or, with Back, x·w, which is the gradient of x.
type quantizedLinear struct {
	Bits, Group int
	Back        bool
}

func (quantizedLinear) Name() string    { return "quantized_linear" }
func (quantizedLinear) Linear() [][]int { return [][]int{{0}, {2}} }

// Role returns nil for cases without a device kernel: gradients, and zero points, which are a fourth operand.
func (o quantizedLinear) Role() any {
	if o.Back {
		return nil
	}
	return QuantizedLinearRole{Bits: o.Bits, Group: o.Group}
}

func (o quantizedLinear) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 && len(in) != 4 {
		return nil, fmt.Errorf("want 3 or 4 operands: got %d", len(in))
	}
	if err := wantFloats([]Type{in[0], in[2]}, 2); err != nil {
		return nil, err
	}
	x, q, scale := in[0].Shape, in[1], in[2].Shape
	if o.Bits != 4 && o.Bits != 8 || o.Group < 1 || o.Group*o.Bits%8 != 0 {
		return nil, fmt.Errorf("%d bits in groups of %d: want 4 or 8 bits, and whole bytes a group", o.Bits,
			o.Group)
	}
	if q.DType != array.U8 || len(q.Shape) != 2 || len(x) == 0 {
		return nil, fmt.Errorf("want rows and a matrix of bytes: got %v and %v", in[0], q)
	}
	n, k := q.Shape[0], q.Shape[1]*8/o.Bits
	if k%o.Group != 0 || !scale.Equal(array.Shape{n, k / o.Group}) {
		return nil, fmt.Errorf("scales %v: want [%d %d], one for each group of %d of %v", in[2], n, k/o.Group,
			o.Group, q)
	}
	if len(in) == 4 && (in[3].DType != array.U8 || !in[3].Shape.Equal(scale)) {
		return nil, fmt.Errorf("zeros %v: want bytes of the scales' shape, %v", in[3], scale)
	}
	from, to := k, n
	if o.Back {
		from, to = n, k
	}
	if x[len(x)-1] != from {
		return nil, fmt.Errorf("cannot contract %v with weights [%d %d]: sizes %d and %d", in[0], n, k,
			x[len(x)-1], from)
	}
	return []Type{{DType: in[0].DType, Shape: append(x[:len(x)-1].Clone(), to)}}, nil
}

func (o quantizedLinear) Decompose(in []*Tensor) []*Tensor {
	return []*Tensor{MatMulT(in[0], o.weights(in), false, !o.Back)}
}

// weights returns the dequantized weights.
func (o quantizedLinear) weights(in []*Tensor) *Tensor {
	q, scale := Cast(in[1], in[0].DType()), in[2]
	n, groups := scale.Dim(0), scale.Dim(1)
	if o.Bits == 4 {
		high := Floor(MulScalar(q, 1.0/16))
		q = Stack([]*Tensor{Sub(q, MulScalar(high, 16)), high}, -1)
	}
	q = Reshape(q, n, groups, o.Group)
	if len(in) == 4 {
		q = Sub(q, Unsqueeze(Cast(in[3], q.DType()), -1))
	} else {
		q = AddScalar(q, -float64(int(1)<<(o.Bits-1)))
	}
	return Reshape(Mul(q, Unsqueeze(scale, -1)), n, groups*o.Group)
}

// VJP derives the gradient of the scales from the definition; it is computed only if it is needed.
func (o quantizedLinear) VJP(in, _, dout []*Tensor) []*Tensor {
	back := o
	back.Back = !o.Back
	grads := make([]*Tensor, len(in))
	grads[0] = apply1(back, append([]*Tensor{dout[0]}, in[1:]...)...)
	grads[2] = vjpByParts(o, in, dout)[2]
	return grads
}

// Rule lets rows of weights be split, and columns by groups.
func (o quantizedLinear) Rule(in []Type) mesh.Rule {
	lead := factors(0, len(in[0].Shape)-1)
	weights := ",N(GH*),NG"
	if len(in) == 4 {
		weights += ",NG"
	}
	notes := fmt.Sprintf("; H=%d J=%d", o.Group*o.Bits/8, o.Group)
	if o.Back {
		return mesh.Rule(lead + "N" + weights + "->" + lead + "(GJ*)" + notes)
	}
	return mesh.Rule(lead + "(GJ*)" + weights + "->" + lead + "N" + notes)
}

func (o quantizedLinear) Work(in, out []Type) Work {
	x := in[0].Shape
	products := 2 * float64(x[len(x)-1]) * float64(out[0].Shape.Len())
	return Work{Flops: products + 2*float64(in[1].Shape.Len()*8/o.Bits), Bytes: moved(in, out)}
}

func (o quantizedLinear) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runQuantizedLinear[float32](env, o, in, out) },
		func() { runQuantizedLinear[float64](env, o, in, out) })
}

func runQuantizedLinear[T floats](env *Env, o quantizedLinear, in, out []array.Array) {
	q := in[1].Shape()
	m := &kernel.Quantized[T]{Rows: q[0], Cols: q[1] * 8 / o.Bits, Bits: o.Bits, Group: o.Group,
		Q: array.Data[uint8](in[1]), Scale: array.Data[T](in[2])}
	if len(in) == 4 {
		m.Zero = array.Data[uint8](in[3])
	}
	y, x := array.Data[T](out[0]), array.Data[T](in[0])
	n := array.Shape(in[0].Shape()[:len(in[0].Shape())-1]).Len()
	if o.Back {
		m.Mul(env.Pool, y, x, n)
	} else {
		m.MulT(env.Pool, y, x, n)
	}
}

func (o quantizedLinear) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (quantizedLinear) Samples() []Sample {
	return []Sample{
		{Op: quantizedLinear{Bits: 8, Group: 2}, In: []Arg{f32(2, 3, 8), bytesArg(4, 8), f32(4, 4)}},
		{Op: quantizedLinear{Bits: 4, Group: 4}, In: []Arg{f32(3, 16), bytesArg(6, 8), f32(6, 4), bytesArg(6, 4)}},
		{Op: quantizedLinear{Bits: 8, Group: 4, Back: true}, In: []Arg{f32(5, 4), bytesArg(4, 8), f32(4, 2)}},
		{Op: quantizedLinear{Bits: 4, Group: 2, Back: true},
			In: []Arg{f32(2, 2, 6), bytesArg(6, 4), f32(6, 4), bytesArg(6, 4)}},
	}
}
