package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// IndexAdd is x plus the slices of source along dim, each added where index, a vector, says.
func IndexAdd(x *Tensor, dim int, index, source *Tensor) *Tensor {
	return apply1(indexAdd{Dim: normDim(len(x.Shape()), dim)}, x, index, source)
}

type indexAdd struct{ Dim int }

func (indexAdd) Name() string   { return "index_add" }
func (indexAdd) InPlace() []int { return []int{0} }

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
	return in[:1], nil
}

func (o indexAdd) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{dy[0], nil, IndexSelect(dy[0], o.Dim, in[1])}
}

// Rule keeps the source whole along dim: pieces of it would each add to all of x, and x would count many times.
func (o indexAdd) Rule(in []Type) mesh.Rule {
	x, source, index := selectWords(len(in[0].Shape), o.Dim)
	return mesh.Rule(x + "," + index + "*," + source + "->" + x)
}

func (indexAdd) Work(in, out []Type) Work {
	return Work{Flops: float64(in[2].Shape.Len()), Bytes: moved(in, out)}
}

func (o indexAdd) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[0].Shape(), o.Dim)
	idx := readIndices(o, in[1], g.reduced)
	startFrom(env, out[0], in[0])
	addRowsInto(env, out[0], in[2], idx, g)
}

func (o indexAdd) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{emitAddRows(w, in[0], in[1], in[2], o.Dim)}
}

func (indexAdd) Samples() []Sample {
	return []Sample{
		{Op: indexAdd{Dim: 0}, In: []Arg{f32(5, 7), i32Below(5, 6), f32(6, 7)}},
		{Op: indexAdd{Dim: 1}, In: []Arg{f32(5, 7, 3), i32Below(7, 4), f32(5, 4, 3)}},
	}
}
