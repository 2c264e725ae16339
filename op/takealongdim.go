package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// TakeAlongDim returns, for each position of index, the element of x at that position, except along dim,
// where it is taken from index. The other dims are broadcast together.
func TakeAlongDim(x, index *Tensor, dim int) *Tensor {
	if x.Err() != nil || index.Err() != nil {
		return apply1(takeAlongDim{}, x, index)
	}
	rank := len(x.Shape())
	d := normDim(rank, dim)
	if d >= 0 && d < rank && len(index.Shape()) == rank {
		a, b := x.Shape().Clone(), index.Shape().Clone()
		a[d], b[d] = 1, 1
		if common, err := broadcastShapes(a, b); err == nil {
			a, b = common.Clone(), common
			a[d], b[d] = x.Dim(d), index.Dim(d)
			x, index = Expand(x, a...), Expand(index, b...)
		}
	}
	return apply1(takeAlongDim{Dim: d}, x, index)
}

// takeAlongDim may have a shard of x: from Offset on along Dim, of Total; 0 means all of it. Indices into
// other shards give zeros, so that the results of all shards can be summed.
type takeAlongDim struct {
	mover
	Dim           int
	Offset, Total int
}

func (o takeAlongDim) part(x array.Shape) rowPart { return rowPart{x[o.Dim], o.Offset, o.Total} }

func (takeAlongDim) Name() string    { return "take_along_dim" }
func (takeAlongDim) Linear() [][]int { return [][]int{{0}} }

// Work counts the selected elements, not all of x.
func (takeAlongDim) Work(in, out []Type) Work {
	return Work{Bytes: moved(in[1:2], out) + moved(nil, out)}
}

func (o takeAlongDim) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("want 2 operands: got %d", len(in))
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	if err := wantIndices(in[1]); err != nil {
		return nil, err
	}
	if !o.part(in[0].Shape).fits() {
		return nil, fmt.Errorf("dim %d of %v does not lie at %d of %d", o.Dim, in[0], o.Offset, o.Total)
	}
	if !sameExcept(in[0].Shape, in[1].Shape, o.Dim) {
		return nil, fmt.Errorf("cannot take %v from %v along dim %d: other dims differ", in[1], in[0], o.Dim)
	}
	return []Type{{DType: in[0].DType, Shape: in[1].Shape}}, nil
}

func (o takeAlongDim) VJP(in, _, dy []*Tensor) []*Tensor {
	g := takeAlongDimGrad{Dim: o.Dim, Size: in[0].Dim(o.Dim), Offset: o.Offset, Total: o.Total}
	return []*Tensor{apply1(g, in[1], dy[0]), nil}
}

func (o takeAlongDim) Rule(in []Type) mesh.Rule {
	from, to, _ := selectWords(len(in[0].Shape), o.Dim, sumStar(in[0].DType))
	return mesh.Rule(from + "," + to + "->" + to)
}

func (o takeAlongDim) Localize(at *Place) (Op, error) {
	start, total := at.localRows(0, o.Dim, o.Total)
	o.Offset, o.Total = o.Offset+start, total
	return o, nil
}

func (o takeAlongDim) Eval(env *Env, in, out []array.Array) {
	idx := o.part(in[0].Shape()).read(o, in[1])
	switch out[0].DType().Size() {
	case 1:
		takeElems(env, array.Raw[uint8](out[0]), array.Raw[uint8](in[0]), idx, in, o.Dim)
	case 2:
		takeElems(env, array.Raw[uint16](out[0]), array.Raw[uint16](in[0]), idx, in, o.Dim)
	case 4:
		takeElems(env, array.Raw[uint32](out[0]), array.Raw[uint32](in[0]), idx, in, o.Dim)
	case 8:
		takeElems(env, array.Raw[uint64](out[0]), array.Raw[uint64](in[0]), idx, in, o.Dim)
	}
}

func takeElems[T bits](env *Env, dst, src []T, idx []int, in []array.Array, dim int) {
	from, to := nestAlong(in[0].Shape(), dim), nestAlong(in[1].Shape(), dim)
	env.rows(to.outer*to.reduced, to.inner, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			base := t / to.reduced * from.reduced
			for c := range to.inner {
				at := t*to.inner + c
				if idx[at] < 0 {
					dst[at] = 0
					continue
				}
				dst[at] = src[(base+idx[at])*to.inner+c]
			}
		}
	})
}

func (o takeAlongDim) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	take := func(index hlo.Ref) hlo.Ref { return emitTakeAlong(w, in[0], index, o.Dim, out[0]) }
	return []hlo.Ref{o.part(in[0].Shape).emitTaken(w, in[1], upTo(len(in[1].Shape)), out[0], take)}
}

func (takeAlongDim) Samples() []Sample {
	return []Sample{
		{Op: takeAlongDim{Dim: 1}, In: []Arg{f32(5, 7), i32Below(7, 5, 3)}},
		{Op: takeAlongDim{Dim: 0}, In: []Arg{f32(5, 7), i32Below(5, 8, 7)}},
		{Op: takeAlongDim{Dim: 1, Offset: 4, Total: 15}, In: []Arg{f32(3, 7), i32Below(15, 3, 9)}},
	}
}

// scatterAlong sums the elements of x along dim, which gets the given size, at the positions in index.
func scatterAlong(index, x *Tensor, dim, size int) *Tensor {
	return apply1(takeAlongDimGrad{Dim: dim, Size: size}, index, x)
}

// takeAlongDimGrad makes a shard from Offset on along Dim, of Total; 0 means all of it.
type takeAlongDimGrad struct{ Dim, Size, Offset, Total int }

func (o takeAlongDimGrad) part() rowPart { return rowPart{o.Size, o.Offset, o.Total} }

func (takeAlongDimGrad) Name() string    { return "take_along_dim_grad" }
func (takeAlongDimGrad) Linear() [][]int { return [][]int{{1}} }

func (o takeAlongDimGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || !in[1].DType.IsFloat() || !in[0].Shape.Equal(in[1].Shape) || o.Size < 0 ||
		!o.part().fits() {
		return nil, fmt.Errorf("want indices and a float for each: got %v", in)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	if err := wantDim(in[1], o.Dim); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[1].Shape)
	shape[o.Dim] = o.Size
	return []Type{{DType: in[1].DType, Shape: shape}}, nil
}

func (o takeAlongDimGrad) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(takeAlongDim{Dim: o.Dim, Offset: o.Offset, Total: o.Total}, dz[0], in[0])}
}

func (o takeAlongDimGrad) Rule(in []Type) mesh.Rule {
	from, to, _ := selectWords(len(in[1].Shape), o.Dim, "")
	return mesh.Rule(to + "," + to + "->" + from)
}

func (o takeAlongDimGrad) Localize(at *Place) (Op, error) {
	start, total := at.localRows(len(at.In), o.Dim, o.Total)
	return takeAlongDimGrad{Dim: o.Dim, Size: at.OutShape(0)[o.Dim], Offset: o.Offset + start, Total: total}, nil
}

func (takeAlongDimGrad) Work(in, out []Type) Work {
	return Work{Flops: float64(in[1].Shape.Len()), Bytes: moved(in, out)}
}

func (o takeAlongDimGrad) Eval(env *Env, in, out []array.Array) {
	idx := o.part().read(o, in[0])
	clear(out[0].Bytes())
	addAlong(env, out[0], in[1], idx, o.Dim)
}

func (o takeAlongDimGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitAddAlong(w, w.Constant(hloType(out[0]), 0), o.part().emitLocal(w, in[0]), in[1], o.Dim)}
}

func (takeAlongDimGrad) Samples() []Sample {
	return []Sample{
		{Op: takeAlongDimGrad{Dim: 1, Size: 7}, In: []Arg{i32Below(7, 5, 3), f32(5, 3)}},
		{Op: takeAlongDimGrad{Dim: 0, Size: 4}, In: []Arg{i32Below(4, 6, 5), f32(6, 5)}},
		{Op: takeAlongDimGrad{Dim: 1, Size: 7, Offset: 4, Total: 15}, In: []Arg{i32Below(15, 3, 9), f32(3, 9)}},
	}
}
