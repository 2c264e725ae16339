package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Split splits x along dim into pieces of the given sizes, which must add up to the dim's size.
func Split(x *Tensor, dim int, sizes ...int) []*Tensor {
	return ir.Apply(split{Dim: normDim(len(x.Shape()), dim), Sizes: sizes}, x)
}

// Chunk splits x along dim into n pieces of equal size, at least one.
func Chunk(x *Tensor, dim, n int) []*Tensor {
	if n < 1 && x.Err() == nil {
		return []*Tensor{refuse(x, "chunk", "%d pieces: want at least 1", n)}
	}
	sizes := make([]int, max(n, 1))
	for i := range sizes {
		sizes[i] = x.Dim(dim) / len(sizes)
	}
	return Split(x, dim, sizes...)
}

type split struct {
	mover
	Dim   int
	Sizes []int
}

// Cuts reports whether an op splits its operand into parts along a dim.
func Cuts(o ir.Op) bool {
	_, ok := o.(split)
	return ok
}

func (split) Name() string    { return "split" }
func (o split) Role() any     { return SplitRole{o.Dim, o.Sizes} }
func (split) Linear() [][]int { return [][]int{{0}} }

// NumResults returns the number of pieces.
func (o split) NumResults(int) int { return len(o.Sizes) }

func (o split) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	out := make([]Type, len(o.Sizes))
	total := 0
	for i, n := range o.Sizes {
		shape := in[0].Shape.Clone()
		shape[o.Dim] = n
		out[i] = Type{DType: in[0].DType, Shape: shape}
		total += n
		if n < 0 || n > in[0].Shape[o.Dim] {
			return nil, fmt.Errorf("size %d of a piece of dim %d of %v: want from 0 to %d", n, o.Dim, in[0],
				in[0].Shape[o.Dim])
		}
	}
	if total != in[0].Shape[o.Dim] || len(out) == 0 {
		return nil, fmt.Errorf("cannot cut dim %d of %v into %v: want sizes that add up to %d", o.Dim, in[0],
			o.Sizes, in[0].Shape[o.Dim])
	}
	return out, nil
}

func (o split) VJP(_, ys, dys []*Tensor) []*Tensor {
	parts := make([]*Tensor, len(ys))
	for i, dy := range dys {
		if dy == nil {
			dy = ZerosLike(ys[i])
		}
		parts[i] = dy
	}
	return []*Tensor{Concat(parts, o.Dim)}
}

// Follow lets the parts of a split dim have the layout of the dim, for inference.
func (o split) Follow(in, out []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), len(out)+1, []int{o.Dim})
}

func (o split) Rule(in []Type) mesh.Rule {
	words, ok := joinWords(len(in[0].Shape), o.Dim, len(o.Sizes)+1)
	if !ok {
		return mesh.Unknown
	}
	return mesh.Rule(words[0] + "->" + strings.Join(words[1:], ","))
}

func (o split) Eval(env *Env, in, out []array.Array) {
	at := 0
	from := whole(in[0])
	for i, y := range out {
		from.offset = at * from.strides[o.Dim]
		moveStrided(env, y.Shape(), whole(y), from)
		at += o.Sizes[i]
	}
}

// Pieces returns a slice op for each part.
func (o split) Pieces() []Op {
	list, at := make([]Op, len(o.Sizes)), 0
	for i, n := range o.Sizes {
		list[i] = slice{Dims: []int{o.Dim}, Start: []int{at}, End: []int{at + n}, Step: []int{1}}
		at += n
	}
	return list
}

func (o split) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	refs, at := make([]hlo.Ref, len(out)), 0
	for i, t := range out {
		start, end := make([]int, len(t.Shape)), t.Shape.Clone()
		start[o.Dim], end[o.Dim] = at, at+o.Sizes[i]
		at += o.Sizes[i]
		refs[i] = emitSlice(w, in[0], start, end, ones(len(start)), t)
	}
	return refs
}

func (split) Samples() []Sample {
	return []Sample{
		{Op: split{Dim: 1, Sizes: []int{2, 5}}, In: []Arg{f32(5, 7)}},
		{Op: split{Dim: 0, Sizes: []int{1, 0, 4}}, In: []Arg{f32(5, 7, 6)}},
	}
}
