package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Tile repeats x reps times along each dim. Dims are matched from the last; missing ones are taken as ones.
func Tile(x *Tensor, reps ...int) *Tensor {
	if x.Err() != nil {
		return x
	}
	rank := max(len(x.Shape()), len(reps))
	x = Reshape(x, append(ones(rank-len(x.Shape())), x.Shape()...)...)
	return apply1(tile{Reps: append(ones(rank-len(reps)), reps...)}, x)
}

type tile struct {
	mover
	Reps []int
}

func (tile) Name() string    { return "tile" }
func (tile) Linear() [][]int { return [][]int{{0}} }

func (o tile) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || len(o.Reps) != len(in[0].Shape) ||
		slices.ContainsFunc(o.Reps, func(r int) bool { return r < 0 }) {
		return nil, fmt.Errorf("repetitions %v do not fit %v", o.Reps, in)
	}
	shape := in[0].Shape.Clone()
	for d, r := range o.Reps {
		if !(array.Shape{shape[d], r}).Valid() {
			return nil, fmt.Errorf("repetitions %v of %v: the result is too large", o.Reps, in[0])
		}
		shape[d] *= r
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

// spread returns the shape of the result with copies and elements as separate dims, and the dims that are
// copies.
func (o tile) spread(x array.Shape) (shape array.Shape, copies []int) {
	for d, r := range o.Reps {
		copies = append(copies, 2*d)
		shape = append(shape, r, x[d])
	}
	return shape, copies
}

func (o tile) VJP(in, _, dy []*Tensor) []*Tensor {
	shape, copies := o.spread(in[0].Shape())
	if len(shape) == 0 {
		return dy
	}
	return []*Tensor{Sum(Reshape(dy[0], shape...), copies...)}
}

// Rule makes the copies a factor above that of the elements: a device has some of the copies, or part of one.
func (o tile) Rule([]Type) mesh.Rule {
	rank := len(o.Reps)
	in, out, notes := factors(0, rank), "", ";"
	for d, r := range o.Reps {
		if r == 1 {
			out += in[d : d+1]
			continue
		}
		c := o.copies(d)
		out, notes = out+"("+c+in[d:d+1]+")", notes+fmt.Sprintf(" %s=%d", c, r)
	}
	return mesh.Rule(in + "->" + out + notes)
}

// copies returns the factor of the copies along a dim.
func (o tile) copies(d int) string { return factors(len(o.Reps)+d, 1) }

func (o tile) Localize(at *Place) (Op, error) {
	reps := slices.Clone(o.Reps)
	for d := range reps {
		if f := at.Rule.Index(o.copies(d)[0]); f >= 0 {
			reps[d] = at.Ranges[f].Size
		}
	}
	return tile{Reps: reps}, nil
}

func (o tile) Eval(env *Env, in, out []array.Array) {
	shape, copies := o.spread(in[0].Shape())
	strides := make([]int, len(shape))
	for d, s := range in[0].Shape().Strides() {
		strides[copies[d]+1] = s
	}
	to := strided{Array: out[0], strides: shape.Strides()}
	moveStrided(env, shape, to, strided{Array: in[0], strides: strides})
}

func (o tile) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	shape, copies := o.spread(in[0].Shape)
	elems := make([]int, len(copies))
	for i, d := range copies {
		elems[i] = d + 1
	}
	return []hlo.Ref{w.Op("reshape", "", hloType(out[0]), w.Broadcast(in[0], shape, elems))}
}

func (tile) Samples() []Sample {
	return []Sample{
		{Op: tile{Reps: []int{2, 3}}, In: []Arg{f32(5, 7)}},
		{Op: tile{Reps: []int{1, 2, 1}}, In: []Arg{f32(5, 3, 4)}},
	}
}
