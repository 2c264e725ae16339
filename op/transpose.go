package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Transpose reorders dims: dim i of the result is dim perm[i] of x, a negative one counted from the last.
// Without perm the last two are exchanged.
func Transpose(x *Tensor, perm ...int) *Tensor {
	rank := len(x.Shape())
	if len(perm) == 0 {
		perm = swapLast(rank)
	}
	perm = slices.Clone(perm)
	for i, d := range perm {
		perm[i] = normDim(rank, d)
	}
	return apply1(transpose{Perm: perm}, x)
}

func swapLast(rank int) []int {
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	if rank >= 2 {
		perm[rank-1], perm[rank-2] = rank-2, rank-1
	}
	return perm
}

type transpose struct {
	mover
	Perm []int
}

func (transpose) Name() string    { return "transpose" }
func (transpose) Linear() [][]int { return [][]int{{0}} }

func (o transpose) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || len(o.Perm) != len(in[0].Shape) {
		return nil, fmt.Errorf("permutation %v does not fit %v", o.Perm, in)
	}
	shape, seen := make(array.Shape, len(o.Perm)), make([]bool, len(o.Perm))
	for i, p := range o.Perm {
		if p < 0 || p >= len(seen) || seen[p] {
			return nil, fmt.Errorf("%v is not a permutation of the dims of %v", o.Perm, in[0])
		}
		seen[p] = true
		shape[i] = in[0].Shape[p]
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (o transpose) VJP(_, _, dy []*Tensor) []*Tensor {
	inverse := make([]int, len(o.Perm))
	for i, p := range o.Perm {
		inverse[p] = i
	}
	return []*Tensor{Transpose(dy[0], inverse...)}
}

func (o transpose) Rule(in []Type) mesh.Rule {
	word := factors(0, len(o.Perm))
	out := make([]byte, len(o.Perm))
	for i, p := range o.Perm {
		out[i] = word[p]
	}
	return mesh.Rule(word + "->" + string(out))
}

func (o transpose) Eval(env *Env, in, out []array.Array) {
	own := in[0].Shape().Strides()
	strides := make([]int, len(o.Perm))
	for i, p := range o.Perm {
		strides[i] = own[p]
	}
	moveStrided(env, out[0].Shape(), whole(out[0]), strided{Array: in[0], strides: strides})
}

func (o transpose) Loop(in, out []Type) (Loop, bool) {
	own, to := in[0].Shape.Strides(), out[0].Shape.Strides()
	from, into := make([]int, len(own)), make([]int, len(own))
	for i, p := range o.Perm {
		from[i], into[p] = own[p], to[i]
	}
	return moveLoop(Loop{Kind: LoopWalk, Reads: newElemWalk(out[0].Shape, 0, from),
		Writes: []elemWalk{newElemWalk(in[0].Shape, 0, into)}})
}

func (o transpose) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("transpose", "permutation = "+hlo.Ints(o.Perm), hloType(out[0]), in[0])}
}

func (transpose) Samples() []Sample {
	return []Sample{
		{Op: transpose{Perm: []int{2, 0, 1}}, In: []Arg{f32(5, 7, 6)}},
		{Op: transpose{Perm: []int{1, 0}}, In: []Arg{f32(37, 18)}},
		{Op: transpose{Perm: []int{0, 2, 1, 3}}, In: []Arg{f32(2, 5, 3, 4)}},
	}
}
