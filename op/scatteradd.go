package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ScatterAdd returns x with elements of source added at their own positions, except along dim, where the
// position is taken from index, which has source's shape.
func ScatterAdd(x *Tensor, dim int, index, source *Tensor) *Tensor {
	return apply1(scatterAdd{Dim: normDim(len(x.Shape()), dim)}, x, index, source)
}

// scatterAdd may have a shard of x: from Offset on along Dim, of Total; 0 means all of it. With Elsewhere,
// another device, which adds another part of source, contributes x itself.
type scatterAdd struct {
	Dim           int
	Offset, Total int
	Elsewhere     bool
}

func (o scatterAdd) part(x array.Shape) rowPart { return rowPart{x[o.Dim], o.Offset, o.Total} }

func (scatterAdd) Name() string    { return "scatter_add" }
func (scatterAdd) Linear() [][]int { return [][]int{{0, 2}} }
func (scatterAdd) InPlace() []int  { return []int{0} }

func (o scatterAdd) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 {
		return nil, fmt.Errorf("want 3 operands: got %d", len(in))
	}
	if err := wantFloats([]Type{in[0], in[2]}, 2); err != nil {
		return nil, err
	}
	if err := wantIndices(in[1]); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	if !in[1].Shape.Equal(in[2].Shape) || !sameExcept(in[0].Shape, in[1].Shape, o.Dim) {
		return nil, fmt.Errorf("cannot add %v to %v at %v along dim %d", in[2], in[0], in[1], o.Dim)
	}
	if !o.part(in[0].Shape).fits() {
		return nil, fmt.Errorf("dim %d of %v does not lie at %d of %d", o.Dim, in[0], o.Offset, o.Total)
	}
	return in[:1], nil
}

func (o scatterAdd) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{o.own(dy[0]), nil, apply1(takeAlongDim{Dim: o.Dim, Offset: o.Offset, Total: o.Total}, dy[0],
		in[1])}
}

// own returns the gradient of x: that of the result, unless x counts on another device.
func (o scatterAdd) own(dy *Tensor) *Tensor {
	if o.Elsewhere {
		return nil
	}
	return dy
}

// Rule lets the source be split: each part is added to a term of a sum, and x belongs to one of the terms.
func (o scatterAdd) Rule(in []Type) mesh.Rule {
	x, source, _ := selectWords(len(in[0].Shape), o.Dim, "")
	return mesh.Rule(x + "," + source + "," + source + "->" + x)
}

func (o scatterAdd) Localize(at *Place) (Op, error) {
	first, err := at.First(2, o.Dim)
	start, total := at.localRows(0, o.Dim, o.Total)
	o.Offset, o.Total, o.Elsewhere = o.Offset+start, total, o.Elsewhere || !first
	return o, err
}

func (scatterAdd) Work(in, out []Type) Work {
	return Work{Flops: float64(in[2].Shape.Len()), Bytes: moved(in, out)}
}

func (o scatterAdd) Eval(env *Env, in, out []array.Array) {
	idx := o.part(in[0].Shape()).read(o, in[1])
	if o.Elsewhere {
		clear(out[0].Bytes())
	} else {
		startFrom(env, out[0], in[0])
	}
	addAlong(env, out[0], in[2], idx, o.Dim)
}

// addAlong adds each element of src to dst at its own position, except along dim, where it is taken from idx.
func addAlong(env *Env, dst, src array.Array, idx []int, dim int) {
	to, from := nestAlong(dst.Shape(), dim), nestAlong(src.Shape(), dim)
	float(dst,
		func() { addElems(env, array.Data[float32](dst), array.Data[float32](src), idx, to, from) },
		func() { addElems(env, array.Data[float64](dst), array.Data[float64](src), idx, to, from) })
}

// addElems gives each task columns of its own, so that they are summed in the order of src.
func addElems[T floats](env *Env, dst, src []T, idx []int, to, from group) {
	from.eachBlock(env, columnBlock, func(o, c, width int) {
		for p := range from.reduced {
			at := (o*from.reduced+p)*from.inner + c
			for j, v := range src[at : at+width] {
				if row := idx[at+j]; row >= 0 {
					dst[(o*to.reduced+row)*to.inner+c+j] += v
				}
			}
		}
	})
}

func (o scatterAdd) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	x := in[0]
	if o.Elsewhere {
		x = w.Constant(x.Type, 0)
	}
	return []hlo.Ref{emitAddAlong(w, x, o.part(x.Shape).emitLocal(w, in[1]), in[2], o.Dim)}
}

func (scatterAdd) Samples() []Sample {
	return []Sample{
		{Op: scatterAdd{Dim: 1}, In: []Arg{f32(5, 7), i32Below(7, 5, 9), f32(5, 9)}},
		{Op: scatterAdd{Dim: 0}, In: []Arg{f32(4, 7), i32Below(4, 2, 7), f32(2, 7)}},
		{Op: scatterAdd{Dim: 0}, In: []Arg{f32(4, 7), i32Below(4, 4, 7), f32(4, 7)}},
		{Op: scatterAdd{Dim: 0, Offset: 4, Total: 15, Elsewhere: true},
			In: []Arg{f32(7, 2), i32Below(15, 9, 2), f32(9, 2)}},
	}
}
