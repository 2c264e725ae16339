package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Pad returns x with low elements before and high elements after it along each dim, all of the given value.
func Pad(x *Tensor, low, high []int, value float64) *Tensor {
	return pad{Low: low, High: high, Interior: make([]int, len(low)), Value: value}.of(x)
}

// PadInterior is like Pad with interior elements between adjacent elements as well.
func PadInterior(x *Tensor, low, high, interior []int, value float64) *Tensor {
	return pad{Low: low, High: high, Interior: interior, Value: value}.of(x)
}

type pad struct {
	mover
	Low, High, Interior []int
	Value               float64
}

// newPad returns a padding of rank dims that adds nothing yet.
func newPad(rank int) pad {
	return pad{Low: make([]int, rank), High: make([]int, rank), Interior: make([]int, rank)}
}

func (o pad) of(x *Tensor) *Tensor { return apply1(o, x) }

func (pad) Name() string { return "pad" }

// Linear applies only if the padding is zeros.
func (o pad) Linear() [][]int {
	if o.Value == 0 {
		return [][]int{{0}}
	}
	return nil
}

func (o pad) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	rank := len(in[0].Shape)
	if len(o.Low) != rank || len(o.High) != rank || len(o.Interior) != rank {
		return nil, fmt.Errorf("padding %v before, %v after and %v between does not fit %v", o.Low, o.High,
			o.Interior, in[0])
	}
	shape := in[0].Shape.Clone()
	for d, n := range shape {
		if o.Low[d] < 0 || o.High[d] < 0 || o.Interior[d] < 0 {
			return nil, fmt.Errorf("padding of dim %d of %v is negative: %d, %d and %d", d, in[0], o.Low[d], o.High[d],
				o.Interior[d])
		}
		if between := (array.Shape{n, o.Interior[d]}); !between.Valid() || !(array.Shape{o.Low[d]}).Valid() ||
			!(array.Shape{o.High[d]}).Valid() {
			return nil, fmt.Errorf("padding of dim %d of %v is too large: %d, %d and %d", d, in[0], o.Low[d],
				o.High[d], o.Interior[d])
		}
		shape[d] = o.Low[d] + n + max(n-1, 0)*o.Interior[d] + o.High[d]
	}
	if !shape.Valid() {
		return nil, fmt.Errorf("shape %v is not valid", shape)
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

// changed returns the dims that are padded.
func (o pad) changed() []int {
	var dims []int
	for d := range o.Low {
		if o.Low[d]+o.High[d]+o.Interior[d] > 0 {
			dims = append(dims, d)
		}
	}
	return dims
}

func (o pad) VJP(in, _, dy []*Tensor) []*Tensor {
	var s slice
	for _, d := range o.changed() {
		step := o.Interior[d] + 1
		end := o.Low[d] + max((in[0].Dim(d)-1)*step+1, 0)
		s.Dims, s.Start, s.End, s.Step = append(s.Dims, d), append(s.Start, o.Low[d]), append(s.End,
			end), append(s.Step, step)
	}
	return []*Tensor{s.of(dy[0])}
}

func (o pad) Rule(in []Type) mesh.Rule { return cutRule(len(in[0].Shape), o.changed()) }

// Follow lets a padded dim have the layout of the dim, for inference.
func (o pad) Follow(in, _ []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), 2, o.changed())
}

func (o pad) Eval(env *Env, in, out []array.Array) {
	full{DType: out[0].DType(), Shape: out[0].Shape(), Value: o.Value}.Eval(env, nil, out)
	to := whole(out[0])
	for d := range o.Low {
		to.offset += o.Low[d] * to.strides[d]
	}
	for d := range o.Interior {
		to.strides[d] *= o.Interior[d] + 1
	}
	moveStrided(env, in[0].Shape(), to, whole(in[0]))
}

func (o pad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	attrs := fmt.Sprintf("edge_padding_low = %s, edge_padding_high = %s, interior_padding = %s",
		hlo.Ints(o.Low), hlo.Ints(o.High), hlo.Ints(o.Interior))
	value := w.Constant(hlo.Type{DType: in[0].DType}, o.Value)
	return []hlo.Ref{w.Op("pad", attrs, hloType(out[0]), in[0], value)}
}

func (pad) Samples() []Sample {
	return []Sample{
		{Op: pad{Low: []int{0, 1}, High: []int{3, 2}, Interior: []int{0, 0}, Value: 0.5}, In: []Arg{f32(5, 7)}},
		{Op: pad{Low: []int{1, 0, 0}, High: []int{0, 0, 2}, Interior: []int{2, 0, 1}}, In: []Arg{f32(5, 3, 4)}},
	}
}

// PaddedParts returns the terms of v, in order along a dim, if v is a sum of zero-padded tensors each of
// which covers its own part of the dim; else nil.
func PaddedParts(v *Tensor) (parts []*Tensor, dim int) {
	type placed struct {
		x      *Tensor
		lo, hi int
	}
	var list []placed
	dim = -1
	var collect func(v *Tensor) bool
	collect = func(v *Tensor) bool {
		if v.Node() == nil {
			return false
		}
		if _, ok := v.Node().Op().(add); ok {
			in := v.Node().In()
			return in[0].Shape().Equal(in[1].Shape()) && collect(in[0]) && collect(in[1])
		}
		p, ok := v.Node().Op().(pad)
		if !ok || p.Value != 0 {
			return false
		}
		changed := p.changed()
		if len(changed) != 1 || dim >= 0 && changed[0] != dim || p.Interior[changed[0]] != 0 {
			return false
		}
		dim = changed[0]
		list = append(list, placed{v.Node().In()[0], p.Low[dim], v.Dim(dim) - p.High[dim]})
		return true
	}
	if !collect(v) || len(list) < 2 {
		return nil, 0
	}
	slices.SortFunc(list, func(a, b placed) int { return a.lo - b.lo })
	at := 0
	for _, p := range list {
		if p.lo != at {
			return nil, 0
		}
		parts, at = append(parts, p.x), p.hi
	}
	if at != v.Dim(dim) {
		return nil, 0
	}
	return parts, dim
}
