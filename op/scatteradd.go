package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ScatterAdd is x plus the elements of source, each added at its own position with the place along dim taken from
// index, which has source's shape.
func ScatterAdd(x *Tensor, dim int, index, source *Tensor) *Tensor {
	return apply1(scatterAdd{Dim: normDim(len(x.Shape()), dim)}, x, index, source)
}

type scatterAdd struct{ Dim int }

func (scatterAdd) Name() string   { return "scatter_add" }
func (scatterAdd) InPlace() []int { return []int{0} }

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
	return in[:1], nil
}

func (o scatterAdd) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{dy[0], nil, TakeAlongDim(dy[0], in[1], o.Dim)}
}

// Rule keeps the source whole along dim: pieces of it would each add to all of x, and x would count many times.
func (o scatterAdd) Rule(in []Type) mesh.Rule {
	x, source, _ := selectWords(len(in[0].Shape), o.Dim)
	source = wholeDim(source, o.Dim)
	return mesh.Rule(x + "," + source + "," + source + "->" + x)
}

func (scatterAdd) Work(in, out []Type) Work {
	return Work{Flops: float64(in[2].Shape.Len()), Bytes: moved(in, out)}
}

func (o scatterAdd) Eval(env *Env, in, out []array.Array) {
	idx := readIndices(o, in[1], in[0].Shape()[o.Dim])
	startFrom(env, out[0], in[0])
	addAlong(env, out[0], in[2], idx, o.Dim)
}

// addAlong adds each element of src to dst at its own position with the place along dim taken from idx.
func addAlong(env *Env, dst, src array.Array, idx []int, dim int) {
	to, from := nestAlong(dst.Shape(), dim), nestAlong(src.Shape(), dim)
	float(dst,
		func() { addElems(env, array.Data[float32](dst), array.Data[float32](src), idx, to, from) },
		func() { addElems(env, array.Data[float64](dst), array.Data[float64](src), idx, to, from) })
}

// addElems gives each task columns of its own, so that their sums are taken in the order of src.
func addElems[T floats](env *Env, dst, src []T, idx []int, to, from group) {
	from.eachBlock(env, columnBlock, func(o, c, width int) {
		for p := range from.reduced {
			at := (o*from.reduced+p)*from.inner + c
			for j, v := range src[at : at+width] {
				dst[(o*to.reduced+idx[at+j])*to.inner+c+j] += v
			}
		}
	})
}

func (o scatterAdd) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{emitAddAlong(w, in[0], in[1], in[2], o.Dim)}
}

func (scatterAdd) Samples() []Sample {
	return []Sample{
		{Op: scatterAdd{Dim: 1}, In: []Arg{f32(5, 7), i32Below(7, 5, 9), f32(5, 9)}},
		{Op: scatterAdd{Dim: 0}, In: []Arg{f32(4, 7), i32Below(4, 2, 7), f32(2, 7)}},
	}
}
