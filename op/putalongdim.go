package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// PutAlongDim returns x with elements of source written at their own positions, except along dim, where the
// position is taken from index, which has source's shape. If several have the same position, the last one
// wins. Along the other dims source may be shorter than x.
func PutAlongDim(x *Tensor, dim int, index, source *Tensor) *Tensor {
	return apply1(putAlongDim{Dim: normDim(len(x.Shape()), dim)}, x, index, source)
}

type putAlongDim struct {
	mover
	Dim int
}

func (putAlongDim) Name() string   { return "put_along_dim" }
func (putAlongDim) InPlace() []int { return []int{0} }

func (o putAlongDim) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 || in[0].DType != in[2].DType {
		return nil, fmt.Errorf("want a tensor, indices and elements of the tensor's dtype: got %v", in)
	}
	if err := wantIndices(in[1]); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	x, source := in[0].Shape, in[2].Shape
	fits := in[1].Shape.Equal(source) && len(source) == len(x)
	for d := range min(len(x), len(source)) {
		fits = fits && (d == o.Dim || source[d] <= x[d])
	}
	if !fits {
		return nil, fmt.Errorf("cannot put %v into %v at %v along dim %d", in[2], in[0], in[1], o.Dim)
	}
	return in[:1], nil
}

// VJP passes the gradient of a position to the element that was written there last.
func (o putAlongDim) VJP(in, _, dy []*Tensor) []*Tensor {
	x, index, source := in[0], in[1], in[2]
	grads := make([]*Tensor, 3)
	if x.DType().IsFloat() {
		grads[0] = PutAlongDim(dy[0], o.Dim, index, ZerosLike(source))
	}
	if source.DType().IsFloat() {
		number := Iota(x.Scope(), array.I64, source.Shape(), o.Dim)
		last := PutAlongDim(Full(x.Scope(), array.I64, x.Shape(), 0), o.Dim, index, number)
		stays := Equal(o.taken(last, index), number)
		grads[2] = Where(stays, o.taken(dy[0], index), ZerosLike(source))
	}
	return grads
}

// taken returns the elements of y at the written positions.
func (o putAlongDim) taken(y, index *Tensor) *Tensor {
	for d := range index.Shape() {
		if d != o.Dim && index.Dim(d) < y.Dim(d) {
			y = Narrow(y, d, 0, index.Dim(d))
		}
	}
	return TakeAlongDim(y, index, o.Dim)
}

// Rule does not let the dim be split, nor dims that source does not fill.
func (o putAlongDim) Rule(in []Type) mesh.Rule {
	rank := len(in[0].Shape)
	x, source := "", ""
	for d := range rank {
		if d != o.Dim && in[0].Shape[d] == in[2].Shape[d] {
			x, source = x+factors(d, 1), source+factors(d, 1)
			continue
		}
		x, source = x+factors(d, 1)+"*", source+factors(rank+d, 1)+"*"
	}
	return mesh.Rule(x + "," + source + "," + source + "->" + x)
}

func (o putAlongDim) Eval(env *Env, in, out []array.Array) {
	idx := readIndices(o, in[1], in[0].Shape()[o.Dim])
	startFrom(env, out[0], in[0])
	at := o.positions(in[0].Shape(), in[1].Shape(), idx)
	switch out[0].DType().Size() {
	case 1:
		putElems(array.Raw[uint8](out[0]), array.Raw[uint8](in[2]), at)
	case 2:
		putElems(array.Raw[uint16](out[0]), array.Raw[uint16](in[2]), at)
	case 4:
		putElems(array.Raw[uint32](out[0]), array.Raw[uint32](in[2]), at)
	case 8:
		putElems(array.Raw[uint64](out[0]), array.Raw[uint64](in[2]), at)
	}
}

// positions replaces each index along the dim by the flat position in x.
func (o putAlongDim) positions(x, source array.Shape, idx []int) []int {
	strides := x.Strides()
	for i := range idx {
		at := idx[i] * strides[o.Dim]
		for d, rest := len(source)-1, i; d >= 0; d-- {
			if d != o.Dim {
				at += rest % source[d] * strides[d]
			}
			rest /= source[d]
		}
		idx[i] = at
	}
	return idx
}

// putElems runs on one thread, because the last of several elements for one position must win.
func putElems[T bits](dst, src []T, at []int) {
	for i, v := range src {
		dst[at[i]] = v
	}
}

func (o putAlongDim) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	rank := len(in[0].Shape)
	dims := fmt.Sprintf("inserted_window_dims = %[1]s, scatter_dims_to_operand_dims = %[1]s, "+
		"index_vector_dim = %[2]d",
		dimList(upTo(rank)), rank)
	scalar := hlo.Type{DType: in[0].DType}
	region := w.Region([]hlo.Type{scalar, scalar}, func(in []hlo.Ref) []hlo.Ref { return in[1:] })
	attrs := "scatter_dimension_numbers = #stablehlo.scatter<" + dims +
		">, indices_are_sorted = false, unique_indices = false"
	return w.OpN("scatter", attrs, []string{region}, []hlo.Type{in[0].Type}, in[0], emitPoints(w, in[1], o.Dim),
		in[2])[:1]
}

func (putAlongDim) Samples() []Sample {
	return []Sample{
		{Op: putAlongDim{Dim: 1}, In: []Arg{f32(5, 7), i32Below(7, 5, 4), f32(5, 4)}},
		{Op: putAlongDim{Dim: 0}, In: []Arg{f32(4, 7, 2), i32Below(4, 3, 5, 2), f32(3, 5, 2)}},
		{Op: putAlongDim{Dim: 0}, In: []Arg{f32(4, 7), i32Below(4, 4, 7), f32(4, 7)}},
	}
}
