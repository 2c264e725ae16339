package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// RoPEConfig configures rotary position embeddings; the zero value is that of Llama.
type RoPEConfig struct {
	// Theta is the base of the frequencies: pair i of n rotates by theta^(-i/n) per position; 0 means 10000.
	Theta float64
	// Style is "half-split", which pairs elements half a head apart, or "interleaved", which pairs adjacent
	// ones; empty means half-split.
	Style string
	// Dim is the number of elements of the head, from the first, that are rotated; 0 means all.
	Dim int
	// Offset is the position of the first element of the sequence; Start, an integer scalar, is added to it.
	Offset int
	Start  *Tensor
	// Positions, integers [batch, seq] or [seq], replace the index in the sequence.
	Positions *Tensor
	// Freqs holds the frequencies of the pairs if scaling makes them differ from Theta's.
	Freqs []float64
	// Factor multiplies the rotated part of the result; 0 means 1.
	Factor float64
}

// RoPE rotates pairs of elements of x [batch, seq, heads, dim] by angles proportional to their position. [Su
// et al. 2021]
func RoPE(x *Tensor, c RoPEConfig) *Tensor {
	o := rope{Theta: c.Theta, Style: c.Style, Dim: c.Dim, Offset: c.Offset, Freqs: c.Freqs, Factor: c.Factor,
		Positions: c.Positions != nil, DynamicOffset: c.Start != nil}
	in := []*Tensor{x}
	if o.Positions {
		in = append(in, c.Positions)
	}
	if o.DynamicOffset {
		in = append(in, c.Start)
	}
	return apply1(o, in...)
}

// rope takes x, with Positions the positions, and with DynamicOffset a scalar. Inverse rotates backwards,
// which is the gradient.
type rope struct {
	Theta         float64
	Style         string
	Dim           int
	Offset        int
	Freqs         []float64
	Factor        float64
	Positions     bool
	DynamicOffset bool
	Inverse       bool
}

const interleaved = "interleaved"

func (rope) Name() string    { return "rope" }
func (o rope) Role() any     { return RoPERole{o} }
func (rope) Linear() [][]int { return [][]int{{0}} }
func (rope) InPlace() []int  { return []int{0} }

func (o rope) Infer(in []Type) ([]Type, error) {
	n := 1
	if o.Positions {
		n++
	}
	if o.DynamicOffset {
		n++
	}
	if len(in) != n {
		return nil, fmt.Errorf("want %d operands: got %d", n, len(in))
	}
	x := in[0]
	if !x.DType.IsFloat() || len(x.Shape) != 4 {
		return nil, fmt.Errorf("want floats [batch seq heads dim]: got %v", x)
	}
	if o.Style != "" && o.Style != "half-split" && o.Style != interleaved {
		return nil, fmt.Errorf("style %q: want half-split or interleaved", o.Style)
	}
	if dim := o.dim(x.Shape); dim < 0 || dim > x.Shape[3] || dim%2 != 0 {
		return nil, fmt.Errorf("cannot pair %d elements of %v: want an even number up to %d", dim, x, x.Shape[3])
	}
	if want := o.dim(x.Shape) / 2; len(o.Freqs) != 0 && len(o.Freqs) != want {
		return nil, fmt.Errorf("%d frequencies for %v: want %d", len(o.Freqs), x, want)
	}
	return []Type{x}, o.inferExtras(in)
}

func (o rope) inferExtras(in []Type) error {
	if o.Positions {
		p, x := in[1], in[0]
		if !p.DType.IsInt() || !p.Shape.Equal(x.Shape[:2]) && !p.Shape.Equal(x.Shape[1:2]) {
			return fmt.Errorf("positions %v: want integers %v or %v", p, x.Shape[:2], x.Shape[1:2])
		}
	}
	if o.DynamicOffset {
		if t := in[len(in)-1]; !t.DType.IsInt() || len(t.Shape) != 0 {
			return fmt.Errorf("offset %v: want an integer scalar", t)
		}
	}
	return nil
}

// dim returns the number of elements of a head that are rotated.
func (o rope) dim(x array.Shape) int {
	if o.Dim != 0 {
		return o.Dim
	}
	return x[3]
}

func (o rope) factor() float64 {
	if o.Factor == 0 {
		return 1
	}
	return o.Factor
}

// freqs returns the angle of each pair at position 1.
func (o rope) freqs(x array.Shape) []float64 {
	if len(o.Freqs) != 0 {
		return o.Freqs
	}
	theta := o.Theta
	if theta == 0 {
		theta = 10000
	}
	f := make([]float64, o.dim(x)/2)
	for i := range f {
		f[i] = math.Pow(theta, -float64(i)/float64(len(f)))
	}
	return f
}

func (o rope) VJP(in, _, dy []*Tensor) []*Tensor {
	o.Inverse = !o.Inverse
	operands := append([]*Tensor{dy[0]}, in[1:]...)
	grads := make([]*Tensor, len(in))
	grads[0] = apply1(o, operands...)
	return grads
}

// Rule does not allow to split the last dim, that of a head: the two elements of a rotated pair are not
// adjacent.
func (o rope) Rule(in []Type) mesh.Rule {
	text := "bshd*"
	if o.Positions {
		text += "," + "bs"[2-len(in[1].Shape):]
	}
	if o.DynamicOffset {
		text += ","
	}
	return mesh.Rule(text + "->bshd*")
}

// Localize starts positions at the shard's first one, unless they are an operand, which is split as well.
func (o rope) Localize(at *Place) (Op, error) {
	if !o.Positions {
		o.Offset += at.InRange(0, 1).Start
	}
	return o, nil
}

func (o rope) Work(in, out []Type) Work {
	return Work{Flops: 3 * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

// positions returns the position of each element of the sequence, for each batch element if these differ.
func (o rope) positions(in []array.Array) []int {
	offset := o.Offset
	if o.DynamicOffset {
		offset += int(in[len(in)-1].At(0))
	}
	if !o.Positions {
		p := make([]int, in[0].Shape()[1])
		for s := range p {
			p[s] = offset + s
		}
		return p
	}
	p := make([]int, in[1].Len())
	for i := range p {
		p[i] = offset + int(in[1].At(i))
	}
	return p
}

func (o rope) Eval(env *Env, in, out []array.Array) {
	if out[0].Len() == 0 {
		return
	}
	float(out[0], func() { rotate[float32](env, o, in, out[0]) }, func() { rotate[float64](env, o, in, out[0]) })
}

func rotate[T floats](env *Env, o rope, in []array.Array, out array.Array) {
	shape, positions := out.Shape(), o.positions(in)
	sign := 1.0
	if o.Inverse {
		sign = -1
	}
	r := kernel.NewRotation[T](env.Pool, o.freqs(shape), positions, o.factor(), sign)
	x, y := array.Data[T](in[0]), array.Data[T](out)
	width, row := shape[3], shape[2]*shape[3]
	env.rows(shape[0]*shape[1], row, func(lo, hi int) {
		tmp := make([]T, width)
		for i := lo; i < hi; i++ {
			to, from, p := y[i*row:(i+1)*row], x[i*row:(i+1)*row], i%len(positions)
			if o.Style == interleaved {
				r.Neighbours(to, from, p, width)
			} else {
				r.Halves(to, from, p, width, tmp)
			}
		}
	})
	r.Free()
}

func (o rope) Decompose(in []*Tensor) []*Tensor {
	x := wide(in[0])
	cos, sin := o.table(in)
	cos, sin = Cast(cos, x.DType()), Cast(sin, x.DType())
	dim, width := o.dim(x.Shape()), x.Dim(3)
	part := Narrow(x, 3, 0, dim)
	if o.Style == interleaved {
		part = Reshape(part, x.Dim(0), x.Dim(1), x.Dim(2), dim/2, 2)
		a, b := column(part, 0), column(part, 1)
		part = Stack([]*Tensor{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}, -1)
		part = Reshape(part, x.Dim(0), x.Dim(1), x.Dim(2), dim)
	} else {
		a, b := Narrow(part, 3, 0, dim/2), Narrow(part, 3, dim/2, dim)
		part = Concat([]*Tensor{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}, 3)
	}
	if dim < width {
		part = Concat([]*Tensor{part, Narrow(x, 3, dim, width)}, 3)
	}
	return []*Tensor{Cast(part, in[0].DType())}
}

// column returns element i of the last dim.
func column(x *Tensor, i int) *Tensor {
	last := len(x.Shape()) - 1
	return Reshape(Narrow(x, last, i, i+1), x.Shape()[:last]...)
}

// table returns the cosines and sines as [batch or 1, seq, 1, pairs], in f64, which distant positions need.
func (o rope) table(in []*Tensor) (cos, sin *Tensor) {
	x := in[0]
	at := Iota(x.Scope(), array.F64, array.Shape{1, x.Dim(1), 1, 1}, 1)
	if o.Positions {
		p := Cast(in[1], array.F64)
		at = Reshape(p, p.Shape().Len()/max(1, x.Dim(1)), x.Dim(1), 1, 1)
	}
	at = AddScalar(at, float64(o.Offset))
	if o.DynamicOffset {
		at = Add(at, Cast(in[len(in)-1], array.F64))
	}
	var freqs []*Tensor
	for _, f := range o.freqs(x.Shape()) {
		freqs = append(freqs, Const(at, f))
	}
	angles := Mul(at, Stack(freqs, 0))
	sign := 1.0
	if o.Inverse {
		sign = -1
	}
	return MulScalar(Cos(angles), o.factor()), MulScalar(Sin(angles), sign*o.factor())
}

// Emit rotates in float32 with a table of cosines and sines that all layers share, because it depends on
// positions only.
func (o rope) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x := w.Convert(in[0], out[0].DType.Compute())
	cos, sin := o.emitTable(w, in, x)
	dim, last := o.dim(x.Shape), len(x.Shape)-1
	if o.Style != interleaved && dim == x.Shape[3] {
		return []hlo.Ref{w.Convert(emitHalves(w, x, cos, sin), out[0].DType)}
	}
	half := dim / 2
	a, b := emitNarrow(w, x, 3, span{0, half}), emitNarrow(w, x, 3, span{half, dim})
	pairs := x.Shape.Clone()
	if o.Style == interleaved {
		last, pairs[3] = last+1, half
		split := w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: append(pairs.Clone(), 2)},
			emitNarrow(w, x, 3, span{0, dim}))
		a, b = emitNarrow(w, split, 4, span{0, 1}), emitNarrow(w, split, 4, span{1, 2})
	}
	cos, sin = emitRotation(w, cos, a.Shape), emitRotation(w, sin, a.Shape)
	mul := func(x, y hlo.Ref) hlo.Ref { return w.Op("multiply", "", x.Type, x, y) }
	first := w.Op("subtract", "", a.Type, mul(a, cos), mul(b, sin))
	second := w.Op("add", "", a.Type, mul(b, cos), mul(a, sin))
	both := withDim(Type{DType: a.DType, Shape: a.Shape}, last, 2*a.Shape[last])
	y := emitJoin(w, []hlo.Ref{first, second}, last, both)
	if o.Style == interleaved {
		pairs[3] = dim
		y = w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: pairs}, y)
	}
	if dim < x.Shape[3] {
		whole := Type{DType: x.DType, Shape: x.Shape}
		y = emitJoin(w, []hlo.Ref{y, emitNarrow(w, x, 3, span{dim, x.Shape[3]})}, 3, whole)
	}
	return []hlo.Ref{w.Convert(y, out[0].DType)}
}

// emitHalves rotates halves of heads: each half times the cosine, minus (first half) or plus (second half)
// the other half times the sine. It neither slices nor concatenates, so that neighbouring ops read and write
// whole heads.
func emitHalves(w *hlo.Writer, x, cos, sin hlo.Ref) hlo.Ref {
	half := x.Shape[3] / 2
	t := hlo.Type{DType: x.DType, Shape: array.Shape{x.Shape[0], x.Shape[1], x.Shape[2], 2, half}}
	halves := w.Op("reshape", "", t, x)
	other := w.Op("reverse", "dimensions = "+hlo.Ints([]int{3}), t, halves)
	signed := hlo.Type{DType: sin.DType, Shape: array.Shape{sin.Shape[0], sin.Shape[1], 2, half}}
	one := hlo.Type{DType: sin.DType, Shape: array.Shape{sin.Shape[0], sin.Shape[1], 1, half}}
	sin = w.Op("reshape", "", one, sin)
	sin = w.Op("concatenate", "dimension = 2 : i64", signed, w.Op("negate", "", one, sin), sin)
	dims := []int{0, 1, 3, 4}
	if sin.Shape[0] == 1 {
		flat := signed.Shape[1:]
		sin, dims = w.Op("reshape", "", hlo.Type{DType: sin.DType, Shape: flat}, sin), dims[1:]
		cos = w.Op("reshape", "", hlo.Type{DType: cos.DType, Shape: cos.Shape[1:]}, cos)
	}
	sin = w.Op("optimization_barrier", "", sin.Type, sin)
	wideSin := w.Broadcast(sin, t.Shape, dims)
	wideCos := w.Broadcast(cos, t.Shape, append(slices.Clone(dims[:len(dims)-2]), 4))
	mul := func(x, y hlo.Ref) hlo.Ref { return w.Op("multiply", "", t, x, y) }
	return w.Op("reshape", "", x.Type, w.Op("add", "", t, mul(halves, wideCos), mul(other, wideSin)))
}

// emitRotation broadcasts a table [batch or 1, seq, pairs] to a shape [batch, seq, heads, pairs …].
func emitRotation(w *hlo.Writer, table hlo.Ref, shape array.Shape) hlo.Ref {
	if table.Shape[0] == 1 {
		flat := w.Op("reshape", "", hlo.Type{DType: table.DType, Shape: table.Shape[1:]}, table)
		return w.Broadcast(flat, shape, []int{1, 3})
	}
	return w.Broadcast(table, shape, []int{0, 1, 3})
}

// emitTable writes the cosines and sines [batch or 1, seq, pairs], in f64, which distant positions need. A
// barrier keeps them from being recomputed for every element that they rotate.
func (o rope) emitTable(w *hlo.Writer, in []hlo.Ref, x hlo.Ref) (cos, sin hlo.Ref) {
	freqs := o.freqs(x.Shape)
	at, key := o.emitPositions(w, in, x.Shape)
	t := hlo.Type{DType: array.F64, Shape: append(at.Shape.Clone(), len(freqs))}
	if key != "" {
		key = fmt.Sprintf("rope %s %v %v %g", key, t, freqs, o.factor())
	}
	table := func(name, op string) hlo.Ref {
		make := func() hlo.Ref {
			angles := w.Op("multiply", "", t, w.Broadcast(at, t.Shape, []int{0, 1}),
				w.Broadcast(w.List(array.F64, freqs), t.Shape, []int{2}))
			y := w.Op(op, "", t, angles)
			if f := o.factor(); f != 1 {
				y = w.Op("multiply", "", t, y, w.Constant(t, f))
			}
			y = w.Convert(y, x.DType)
			return w.Op("optimization_barrier", "", y.Type, y)
		}
		if key == "" {
			return make()
		}
		return w.Once(name+key+x.DType.String(), make)
	}
	cos, sin = table("cos ", "cosine"), table("sin ", "sine")
	if o.Inverse {
		sin = w.Op("negate", "", sin.Type, sin)
	}
	return cos, sin
}

// emitPositions writes the positions [batch or 1, seq] in f64, and a key that is equal for equal positions;
// it is empty if they are data.
func (o rope) emitPositions(w *hlo.Writer, in []hlo.Ref, x array.Shape) (at hlo.Ref, key string) {
	t := hlo.Type{DType: array.F64, Shape: array.Shape{1, x[1]}}
	if o.Positions {
		if len(in[1].Shape) == 2 {
			t.Shape[0] = x[0]
		}
		at = w.Convert(w.Op("reshape", "", hlo.Type{DType: in[1].DType, Shape: t.Shape}, in[1]), array.F64)
	} else {
		at = emitIota(w, t, 1)
	}
	if o.Offset != 0 {
		at = w.Op("add", "", t, at, w.Constant(t, float64(o.Offset)))
	}
	if o.DynamicOffset {
		at = w.Op("add", "", t, at, w.Broadcast(w.Convert(in[len(in)-1], array.F64), t.Shape, nil))
	}
	if o.Positions || o.DynamicOffset {
		return at, ""
	}
	return at, fmt.Sprint(o.Offset)
}

func (rope) Samples() []Sample {
	x, scalar := f32(2, 5, 3, 8), Arg{Type: Type{DType: array.I64}, High: 9}
	return []Sample{
		{In: []Arg{x}},
		{Op: rope{Style: interleaved, Offset: 3, Inverse: true}, In: []Arg{x}},
		{Op: rope{Theta: 500, Dim: 4, Factor: 1.25}, In: []Arg{x}},
		{Op: rope{Style: interleaved, Dim: 6}, In: []Arg{x}},
		{Op: rope{Freqs: []float64{1, 0.5, 0.25, 0.1}, DynamicOffset: true}, In: []Arg{x, scalar}},
		{Op: rope{Positions: true}, In: []Arg{x, i32Below(99, 2, 5)}},
		{Op: rope{Positions: true, DynamicOffset: true, Offset: -2}, In: []Arg{x, i32Below(99, 5), scalar}},
	}
}
