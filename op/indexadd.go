package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// IndexAdd returns x with the slices of source along dim added at the positions in index, a vector.
func IndexAdd(x *Tensor, dim int, index, source *Tensor) *Tensor {
	return apply1(indexAdd{Dim: normDim(len(x.Shape()), dim)}, x, index, source)
}

// indexAdd may have a shard of x: from Offset on along Dim, of Total; 0 means all of it. With Elsewhere,
// another device, which adds another part of source, contributes x itself.
type indexAdd struct {
	Dim           int
	Offset, Total int
	Elsewhere     bool
}

func (o indexAdd) part(x array.Shape) rowPart { return rowPart{x[o.Dim], o.Offset, o.Total} }

func (indexAdd) Name() string    { return "index_add" }
func (indexAdd) Linear() [][]int { return [][]int{{0, 2}} }
func (indexAdd) InPlace() []int  { return []int{0} }

func (o indexAdd) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 || len(in[1].Shape) != 1 {
		return nil, fmt.Errorf("want a tensor, a vector of indices and a source: got %v", in)
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
	if !sameExcept(in[0].Shape, in[2].Shape, o.Dim) || in[2].Shape[o.Dim] != in[1].Shape[0] {
		return nil, fmt.Errorf("cannot add %v to %v at %v along dim %d", in[2], in[0], in[1], o.Dim)
	}
	if !o.part(in[0].Shape).fits() {
		return nil, fmt.Errorf("dim %d of %v does not lie at %d of %d", o.Dim, in[0], o.Offset, o.Total)
	}
	return in[:1], nil
}

func (o indexAdd) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{o.own(dy[0]), nil, apply1(indexSelect{Dim: o.Dim, Offset: o.Offset, Total: o.Total}, dy[0],
		in[1])}
}

// own returns the gradient of x: that of the result, unless x counts on another device.
func (o indexAdd) own(dy *Tensor) *Tensor {
	if o.Elsewhere {
		return nil
	}
	return dy
}

// Rule lets the source be split: each part is added to a term of a sum, and x belongs to one of the terms.
func (o indexAdd) Rule(in []Type) mesh.Rule {
	x, source, index := selectWords(len(in[0].Shape), o.Dim, "")
	return mesh.Rule(x + "," + index + "," + source + "->" + x)
}

func (o indexAdd) Localize(at *Place) (Op, error) {
	first, err := at.First(2, o.Dim)
	start, total := at.localRows(0, o.Dim, o.Total)
	o.Offset, o.Total, o.Elsewhere = o.Offset+start, total, o.Elsewhere || !first
	return o, err
}

func (indexAdd) Work(in, out []Type) Work {
	return Work{Flops: float64(in[2].Shape.Len()), Bytes: moved(in, out)}
}

func (o indexAdd) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[0].Shape(), o.Dim)
	idx := o.part(in[0].Shape()).read(o, in[1])
	if o.Elsewhere {
		clear(out[0].Bytes())
	} else {
		startFrom(env, out[0], in[0])
	}
	addRowsInto(env, out[0], in[2], idx, g)
}

func (o indexAdd) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	x := in[0]
	if o.Elsewhere {
		x = w.Constant(x.Type, 0)
	}
	return []hlo.Ref{emitAddRows(w, x, o.part(x.Shape).emitLocal(w, in[1]), in[2], o.Dim)}
}

func (indexAdd) Samples() []Sample {
	return []Sample{
		{Op: indexAdd{Dim: 0}, In: []Arg{f32(5, 7), i32Below(5, 6), f32(6, 7)}},
		{Op: indexAdd{Dim: 0}, In: []Arg{f32(5, 7), i32Below(5, 5), f32(5, 7)}},
		{Op: indexAdd{Dim: 1}, In: []Arg{f32(5, 7, 3), i32Below(7, 4), f32(5, 4, 3)}},
		{Op: indexAdd{Dim: 0, Offset: 4, Total: 15, Elsewhere: true},
			In: []Arg{f32(7, 2), i32Below(15, 9), f32(9, 2)}},
	}
}
