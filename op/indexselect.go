package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// IndexSelect returns the slices of x along dim at the positions in index, a vector.
func IndexSelect(x *Tensor, dim int, index *Tensor) *Tensor {
	return apply1(indexSelect{Dim: normDim(len(x.Shape()), dim)}, x, index)
}

// indexSelect may have a shard of x: from Offset on along Dim, of Total; 0 means all of it. Indices into
// other shards give zeros, so that the results of all shards can be summed.
type indexSelect struct {
	mover
	Dim           int
	Offset, Total int
}

func (o indexSelect) part(x array.Shape) rowPart { return rowPart{x[o.Dim], o.Offset, o.Total} }

func (indexSelect) Name() string    { return "index_select" }
func (indexSelect) Linear() [][]int { return [][]int{{0}} }

// Work counts the selected elements, not all of x.
func (indexSelect) Work(in, out []Type) Work {
	return Work{Bytes: moved(in[1:2], out) + moved(nil, out)}
}

func (o indexSelect) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || len(in[1].Shape) != 1 {
		return nil, fmt.Errorf("want a tensor and a vector of indices: got %v", in)
	}
	if err := wantIndices(in[1]); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	if !o.part(in[0].Shape).fits() {
		return nil, fmt.Errorf("dim %d of %v does not lie at %d of %d", o.Dim, in[0], o.Offset, o.Total)
	}
	shape := in[0].Shape.Clone()
	shape[o.Dim] = in[1].Shape[0]
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (o indexSelect) VJP(in, _, dy []*Tensor) []*Tensor {
	g := indexSelectGrad{Dim: o.Dim, Size: in[0].Dim(o.Dim), Offset: o.Offset, Total: o.Total}
	return []*Tensor{apply1(g, in[1], dy[0]), nil}
}

func (o indexSelect) Rule(in []Type) mesh.Rule {
	from, to, index := selectWords(len(in[0].Shape), o.Dim, sumStar(in[0].DType))
	return mesh.Rule(from + "," + index + "->" + to)
}

// selectWords names the factors of a tensor, with a separate factor along dim, of its selection, and of the
// index.
func selectWords(rank, dim int, star string) (from, to, index string) {
	to = factors(0, rank)
	return to[:dim] + factors(rank, 1) + star + to[dim+1:], to, to[dim : dim+1]
}

func (o indexSelect) Localize(at *Place) (Op, error) {
	start, total := at.localRows(0, o.Dim, o.Total)
	o.Offset, o.Total = o.Offset+start, total
	return o, nil
}

func (o indexSelect) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[0].Shape(), o.Dim)
	copyRows(env, out[0], in[0], o.part(in[0].Shape()).read(o, in[1]), g)
}

func (o indexSelect) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	take := func(index hlo.Ref) hlo.Ref { return emitTakeRows(w, in[0], index, o.Dim, out[0]) }
	return []hlo.Ref{o.part(in[0].Shape).emitTaken(w, in[1], []int{o.Dim}, out[0], take)}
}

func (indexSelect) Samples() []Sample {
	return []Sample{
		{Op: indexSelect{Dim: 1}, In: []Arg{f32(5, 7, 6), i32Below(7, 4)}},
		{Op: indexSelect{Dim: 0}, In: []Arg{f32(5), i32Below(5, 9)}},
		{Op: indexSelect{Dim: 1, Offset: 4, Total: 15}, In: []Arg{f32(3, 7), i32Below(15, 9)}},
	}
}

// indexSelectGrad sums slices by their index, along a dim of the given size. A shard is from Offset on, of
// Total; 0 means all of it.
type indexSelectGrad struct{ Dim, Size, Offset, Total int }

func (o indexSelectGrad) part() rowPart { return rowPart{o.Size, o.Offset, o.Total} }

func (indexSelectGrad) Name() string    { return "index_select_grad" }
func (indexSelectGrad) Linear() [][]int { return [][]int{{1}} }

func (o indexSelectGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || !in[1].DType.IsFloat() || len(in[0].Shape) != 1 || o.Size < 0 || !o.part().fits() {
		return nil, fmt.Errorf("want a vector of indices and floats: got %v", in)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	if err := wantDim(in[1], o.Dim); err != nil {
		return nil, err
	}
	shape := in[1].Shape.Clone()
	if shape[o.Dim] != in[0].Shape[0] {
		return nil, fmt.Errorf("dim %d of %v needs as many indices: got %v", o.Dim, in[1], in[0])
	}
	shape[o.Dim] = o.Size
	return []Type{{DType: in[1].DType, Shape: shape}}, nil
}

func (o indexSelectGrad) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(indexSelect{Dim: o.Dim, Offset: o.Offset, Total: o.Total}, dz[0], in[0])}
}

func (o indexSelectGrad) Rule(in []Type) mesh.Rule {
	from, to, index := selectWords(len(in[1].Shape), o.Dim, "")
	return mesh.Rule(index + "," + to + "->" + from)
}

func (o indexSelectGrad) Localize(at *Place) (Op, error) {
	start, total := at.localRows(len(at.In), o.Dim, o.Total)
	return indexSelectGrad{Dim: o.Dim, Size: at.OutShape(0)[o.Dim], Offset: o.Offset + start, Total: total}, nil
}

func (indexSelectGrad) Work(in, out []Type) Work {
	return Work{Flops: float64(in[1].Shape.Len()), Bytes: moved(in, out)}
}

func (o indexSelectGrad) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(out[0].Shape(), o.Dim)
	idx := o.part().read(o, in[0])
	clear(out[0].Bytes())
	addRowsInto(env, out[0], in[1], idx, g)
}

func (o indexSelectGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitAddRows(w, w.Constant(hloType(out[0]), 0), o.part().emitLocal(w, in[0]), in[1], o.Dim)}
}

func (indexSelectGrad) Samples() []Sample {
	return []Sample{
		{Op: indexSelectGrad{Dim: 1, Size: 7}, In: []Arg{i32Below(7, 4), f32(5, 4, 6)}},
		{Op: indexSelectGrad{Dim: 0, Size: 7, Offset: 4, Total: 15}, In: []Arg{i32Below(15, 9), f32(9, 2)}},
	}
}
