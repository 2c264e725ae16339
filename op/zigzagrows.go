package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ZigzagRows puts the elements along a dim into the zigzag order of parts; see ZigzagOrder. A dim that does
// not fit it stays as it is.
func ZigzagRows(x *Tensor, dim, parts int) *Tensor {
	if x.Err() != nil {
		return x
	}
	d := normDim(len(x.Shape()), dim)
	if d < 0 || d >= len(x.Shape()) {
		return misplaced(x, "zigzag", dim)
	}
	if !ZigzagFits(parts, x.Dim(d)) {
		return x
	}
	return apply1(zigzag{Dim: d, Parts: parts}, x)
}

// zigzag is the op of ZigzagRows, or with Inverse of the way back.
type zigzag struct {
	mover
	Dim, Parts int
	Inverse    bool
}

func (zigzag) Name() string    { return "zigzag" }
func (zigzag) Linear() [][]int { return [][]int{{0}} }

func (o zigzag) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || o.Dim < 0 || o.Dim >= len(in[0].Shape) || !ZigzagFits(o.Parts, in[0].Shape[o.Dim]) {
		return nil, fmt.Errorf("zigzag of %d parts along dim %d does not fit %v", o.Parts, o.Dim, in)
	}
	return []Type{in[0]}, nil
}

func (o zigzag) VJP(_, _, dy []*Tensor) []*Tensor {
	o.Inverse = !o.Inverse
	return []*Tensor{apply1(o, dy[0])}
}

func (o zigzag) Rule(in []Type) mesh.Rule { return alongRule(len(in[0].Shape), o.Dim) }

// Follow lets the dim keep its layout, for inference.
func (o zigzag) Follow(in, _ []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), 2, []int{o.Dim})
}

func (o zigzag) Decompose(in []*Tensor) []*Tensor {
	x, d, n := in[0], o.Dim, o.Parts
	shape := x.Shape()
	rows := func(counts ...int) *Tensor {
		dims := append(append(shape[:d:d], counts...), shape[d]/(2*n))
		return Reshape(x, append(dims, shape[d+1:]...)...)
	}
	if o.Inverse {
		pairs := Unbind(rows(n, 2), d+1)
		return []*Tensor{Reshape(Concat([]*Tensor{pairs[0], Flip(pairs[1], d)}, d), shape...)}
	}
	chunks := Chunk(rows(2*n), d, 2)
	return []*Tensor{Reshape(Stack([]*Tensor{chunks[0], Flip(chunks[1], d)}, d+1), shape...)}
}

func (o zigzag) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[0].Shape(), o.Dim)
	order := ZigzagOrder(o.Parts, g.reduced)
	if o.Inverse {
		back := make([]int, len(order))
		for i, at := range order {
			back[at] = i
		}
		order = back
	}
	copyRows(env, out[0], in[0], order, g)
}

func (o zigzag) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (zigzag) Samples() []Sample {
	return []Sample{
		{Op: zigzag{Dim: 1, Parts: 3}, In: []Arg{f32(5, 12)}},
		{Op: zigzag{Dim: 0, Parts: 2, Inverse: true}, In: []Arg{f32(8, 3)}},
		{Op: zigzag{Dim: 1, Parts: 1}, In: []Arg{i32Below(9, 5, 6, 2)}},
	}
}
