package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// DynamicUpdateSlice is x with a box of it replaced by update. The box begins, along dims[i], at start[i], which is
// moved so that the box lies within x; along other dims update has x's size. start is an integer vector, or a scalar
// where there is one dim. Where x is not used again, its memory is written over.
func DynamicUpdateSlice(x, update, start *Tensor, dims ...int) *Tensor {
	return apply1(dynamicUpdateSlice{Dims: ownDims(x, dims)}, x, update, start)
}

type dynamicUpdateSlice struct {
	mover
	Dims []int
}

func (dynamicUpdateSlice) Name() string   { return "dynamic_update_slice" }
func (dynamicUpdateSlice) InPlace() []int { return []int{0} }

func (o dynamicUpdateSlice) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 {
		return nil, fmt.Errorf("want 3 operands: got %d", len(in))
	}
	if err := wantSame(in[:2], 2); err != nil {
		return nil, err
	}
	if err := wantStart(in[0], in[2], o.Dims); err != nil {
		return nil, err
	}
	want := in[0].Shape.Clone()
	fits := len(in[1].Shape) == len(want)
	for _, d := range o.Dims {
		if fits && in[1].Shape[d] <= want[d] {
			want[d] = in[1].Shape[d]
		}
	}
	if !fits || !in[1].Shape.Equal(want) {
		return nil, fmt.Errorf("cannot put %v into %v along dims %v", in[1], in[0], o.Dims)
	}
	return in[:1], nil
}

func (o dynamicUpdateSlice) VJP(in, _, dy []*Tensor) []*Tensor {
	sizes := make([]int, len(o.Dims))
	for i, d := range o.Dims {
		sizes[i] = in[1].Dim(d)
	}
	return []*Tensor{
		DynamicUpdateSlice(dy[0], ZerosLike(in[1]), in[2], o.Dims...),
		DynamicSlice(dy[0], in[2], o.Dims, sizes),
		nil,
	}
}

func (o dynamicUpdateSlice) Rule(in []Type) mesh.Rule {
	x, box, start := boxWords(len(in[0].Shape), o.Dims, in[2])
	return mesh.Rule(x + "," + box + "," + start + "->" + x)
}

func (o dynamicUpdateSlice) Eval(env *Env, in, out []array.Array) {
	startFrom(env, out[0], in[0])
	shape := in[1].Shape()
	moveStrided(env, shape, placed(out[0], in[2], o.Dims, shape), whole(in[1]))
}

// Work counts the box only: the rest stays where it is when the op runs in place, as it is meant to.
func (o dynamicUpdateSlice) Work(in, _ []Type) Work { return Work{Bytes: 2 * moved(in[1:2], nil)} }

func (o dynamicUpdateSlice) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	operands := append([]hlo.Ref{in[0], in[1]}, emitStarts(w, in[2], len(in[0].Shape), o.Dims)...)
	return []hlo.Ref{w.Op("dynamic_update_slice", "", hloType(out[0]), operands...)}
}

func (dynamicUpdateSlice) Samples() []Sample {
	return []Sample{
		{Op: dynamicUpdateSlice{Dims: []int{1}}, In: []Arg{f32(5, 7, 6), f32(5, 3, 6), i32Below(7)}},
		{Op: dynamicUpdateSlice{Dims: []int{0, 1}}, In: []Arg{f32(5, 7), f32(2, 3), i32Below(4, 2)}},
	}
}
