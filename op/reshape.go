package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Reshape returns x's elements in the same order in another shape. One dim may be -1: it is inferred.
func Reshape(x *Tensor, shape ...int) *Tensor {
	if x.Err() == nil && x.Shape().Equal(shape) {
		return x
	}
	return apply1(reshape{Shape: shape}, x)
}

type reshape struct {
	mover
	Shape []int
}

func (reshape) Name() string    { return "reshape" }
func (reshape) Role() any       { return ReshapeRole{} }
func (reshape) Linear() [][]int { return [][]int{{0}} }
func (reshape) Alias()          {}

func (r reshape) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	shape, known, guess := array.Shape(r.Shape).Clone(), 1, -1
	for d, n := range shape {
		switch {
		case n == -1 && guess < 0:
			guess = d
		case n < 0:
			return nil, fmt.Errorf("shape %v: at most one dim may be -1", shape)
		default:
			known *= n
		}
	}
	n := in[0].Shape.Len()
	if guess >= 0 && known > 0 && n%known == 0 {
		shape[guess] = n / known
	}
	if !shape.Valid() || shape.Len() != n {
		return nil, fmt.Errorf("cannot give %v the shape %v: %d elements", in[0], array.Shape(r.Shape), n)
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (reshape) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{Reshape(dy[0], in[0].Shape()...)}
}

// Fold merges two reshapes into one, and removes one that changes nothing.
func (r reshape) Fold(in []*Tensor) *Tensor {
	x := in[0]
	for x.Node() != nil {
		if _, ok := x.Node().Op().(reshape); !ok {
			break
		}
		x = x.Node().In()[0]
	}
	switch out, err := r.Infer([]Type{x.Type()}); {
	case err == nil && out[0].Equal(x.Type()):
		return x
	case x != in[0]:
		return apply1(r, x)
	}
	return nil
}

func (r reshape) Rule(in []Type) mesh.Rule {
	out, err := r.Infer(in)
	if err != nil {
		return mesh.Unknown
	}
	return reshapeRule(in[0].Shape, out[0].Shape)
}

func (reshape) Localize(at *Place) (Op, error) { return reshape{Shape: at.OutShape(0)}, nil }

func (reshape) Eval(env *Env, in, out []array.Array) { copyBytes(env, out[0], in[0]) }

func (reshape) Loop(_, _ []Type) (Loop, bool) { return sameLoop() }

func (reshape) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("reshape", "", hloType(out[0]), in[0])}
}

func (reshape) Samples() []Sample {
	return []Sample{
		{Op: reshape{Shape: []int{7, 30}}, In: []Arg{f32(5, 7, 6)}},
		{Op: reshape{Shape: []int{35, -1}}, In: []Arg{f32(5, 7, 6)}},
		{Op: reshape{Shape: []int{4, 2, 3}}, In: []Arg{f32(8, 3)}},
		{Op: reshape{Shape: []int{4, 6}}, In: []Arg{f32(6, 4)}},
	}
}
