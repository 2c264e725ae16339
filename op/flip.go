package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Flip reverses the order of elements along dims.
func Flip(x *Tensor, dims ...int) *Tensor {
	if len(dims) == 0 {
		return x
	}
	return apply1(flip{Dims: normDims(len(x.Shape()), dims)}, x)
}

type flip struct {
	mover
	Dims []int
}

func (flip) Name() string    { return "flip" }
func (flip) Linear() [][]int { return [][]int{{0}} }

func (o flip) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || !distinct(in[0], o.Dims) {
		return nil, fmt.Errorf("dims %v do not fit %v", o.Dims, in)
	}
	return []Type{in[0]}, nil
}

func (o flip) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{Flip(dy[0], o.Dims...)} }
func (o flip) Rule(in []Type) mesh.Rule         { return mixRule(len(in[0].Shape), o.Dims) }

// Follow lets a flipped dim keep its layout, for inference.
func (o flip) Follow(in, _ []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), 2, o.Dims)
}

// mixRule returns the rule of an op that keeps its operand's shape and moves elements along dims.
func mixRule(rank int, dims []int) mesh.Rule {
	word := ""
	for d := range rank {
		word += factors(d, 1)
		if slices.Contains(dims, d) {
			word += "*"
		}
	}
	return mesh.Rule(word + "->" + word)
}

func (o flip) Eval(env *Env, in, out []array.Array) {
	from := whole(in[0])
	for _, d := range o.Dims {
		from.offset += (in[0].Shape()[d] - 1) * from.strides[d]
		from.strides[d] = -from.strides[d]
	}
	moveStrided(env, out[0].Shape(), whole(out[0]), from)
}

func (o flip) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("reverse", "dimensions = "+hlo.Ints(o.Dims), hloType(out[0]), in[0])}
}

func (flip) Samples() []Sample {
	return []Sample{
		{Op: flip{Dims: []int{1}}, In: []Arg{f32(5, 7)}},
		{Op: flip{Dims: []int{0, 2}}, In: []Arg{f32(5, 7, 6)}},
	}
}

// alongRule returns the rule of an op that keeps its operand's shape and mixes the elements along one dim.
func alongRule(rank, dim int) mesh.Rule { return mixRule(rank, []int{dim}) }
