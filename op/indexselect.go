package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// IndexSelect is the slices of x along dim that index, a vector, names.
func IndexSelect(x *Tensor, dim int, index *Tensor) *Tensor {
	return apply1(indexSelect{Dim: normDim(len(x.Shape()), dim)}, x, index)
}

type indexSelect struct {
	mover
	Dim int
}

func (indexSelect) Name() string { return "index_select" }

// Work counts the elements taken, not all of those to choose from.
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
	shape := in[0].Shape.Clone()
	shape[o.Dim] = in[1].Shape[0]
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (o indexSelect) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(indexSelectGrad{Dim: o.Dim, Size: in[0].Dim(o.Dim)}, in[1], dy[0]), nil}
}

func (o indexSelect) Rule(in []Type) mesh.Rule {
	from, to, index := selectWords(len(in[0].Shape), o.Dim)
	return mesh.Rule(from + "," + index + "->" + to)
}

// selectWords names the factors of a tensor that is whole along dim, of its selection, and of the index.
func selectWords(rank, dim int) (from, to, index string) {
	to = factors(0, rank)
	return to[:dim] + factors(rank, 1) + "*" + to[dim+1:], to, to[dim : dim+1]
}

func (o indexSelect) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[0].Shape(), o.Dim)
	copyRows(env, out[0], in[0], readIndices(o, in[1], g.reduced), g)
}

func (o indexSelect) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitTakeRows(w, in[0], in[1], o.Dim, out[0])}
}

func (indexSelect) Samples() []Sample {
	return []Sample{
		{Op: indexSelect{Dim: 1}, In: []Arg{f32(5, 7, 6), i32Below(7, 4)}},
		{Op: indexSelect{Dim: 0}, In: []Arg{f32(5), i32Below(5, 9)}},
	}
}

// indexSelectGrad adds slices up by the index that names them, along a dim of the given size.
type indexSelectGrad struct{ Dim, Size int }

func (indexSelectGrad) Name() string { return "index_select_grad" }

func (o indexSelectGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || !in[1].DType.IsFloat() || len(in[0].Shape) != 1 || o.Size < 0 {
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
	return []*Tensor{nil, IndexSelect(dz[0], o.Dim, in[0])}
}

func (o indexSelectGrad) Rule(in []Type) mesh.Rule {
	from, to, index := selectWords(len(in[1].Shape), o.Dim)
	return mesh.Rule(index + "," + to + "->" + from)
}

func (indexSelectGrad) Work(in, out []Type) Work {
	return Work{Flops: float64(in[1].Shape.Len()), Bytes: moved(in, out)}
}

func (o indexSelectGrad) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(out[0].Shape(), o.Dim)
	idx := readIndices(o, in[0], g.reduced)
	clear(out[0].Bytes())
	addRowsInto(env, out[0], in[1], idx, g)
}

func (o indexSelectGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitAddRows(w, w.Constant(hloType(out[0]), 0), in[0], in[1], o.Dim)}
}

func (indexSelectGrad) Samples() []Sample {
	return []Sample{{Op: indexSelectGrad{Dim: 1, Size: 7}, In: []Arg{i32Below(7, 4), f32(5, 4, 6)}}}
}
