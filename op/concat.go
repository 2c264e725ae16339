package op

import (
	"errors"
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Concat concatenates tensors along dim; their other dims must be equal.
func Concat(xs []*Tensor, dim int) *Tensor {
	if len(xs) == 0 {
		return nowhere{errors.New("concat: no operands")}.Apply(concat{}, nil)[0]
	}
	return apply1(concat{Dim: normDim(len(xs[0].Shape()), dim)}, xs...)
}

// nowhere is the scope of an error that has no operands to take a scope from.
type nowhere struct{ err error }

func (s nowhere) Apply(o ir.Op, in []*Tensor) []*Tensor {
	return ir.InvalidResults(s, o, len(in), s.err)
}

type concat struct {
	mover
	Dim int
}

func (concat) Name() string    { return "concat" }
func (o concat) Role() any     { return ConcatRole{o.Dim} }
func (concat) Linear() [][]int { return [][]int{{}} }

func (o concat) Infer(in []Type) ([]Type, error) {
	if len(in) == 0 {
		return nil, errors.New("want at least 1 operand: got none")
	}
	if err := wantSame(in, len(in)); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], o.Dim); err != nil {
		return nil, err
	}
	shape := in[0].Shape.Clone()
	for _, t := range in[1:] {
		if !sameExcept(in[0].Shape, t.Shape, o.Dim) {
			return nil, fmt.Errorf("cannot join %v and %v along dim %d: other dims differ", in[0], t, o.Dim)
		}
		if shape[o.Dim] += t.Shape[o.Dim]; !shape.Valid() {
			return nil, fmt.Errorf("joined along dim %d: %d operands like %v are too large", o.Dim, len(in), t)
		}
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

// Fold returns the tensor whose consecutive slices the operands are, or the only operand.
func (o concat) Fold(in []*Tensor) *Tensor {
	n := in[0].Node()
	if len(in) == 1 {
		return in[0]
	}
	if n == nil || len(in) != len(n.Out()) {
		return nil
	}
	if s, ok := n.Op().(split); !ok || s.Dim != o.Dim {
		return nil
	}
	for i, x := range in {
		if x != n.Out()[i] {
			return nil
		}
	}
	return n.In()[0]
}

// sameExcept reports whether two shapes agree in all dims but one.
func sameExcept(a, b array.Shape, dim int) bool {
	if len(a) != len(b) {
		return false
	}
	for d := range a {
		if d != dim && a[d] != b[d] {
			return false
		}
	}
	return true
}

func (o concat) VJP(in, _, dy []*Tensor) []*Tensor {
	sizes := make([]int, len(in))
	for i, x := range in {
		sizes[i] = x.Dim(o.Dim)
	}
	if len(in) == 1 {
		return dy
	}
	return Split(dy[0], o.Dim, sizes...)
}

func (o concat) Rule(in []Type) mesh.Rule {
	words, ok := joinWords(len(in[0].Shape), o.Dim, len(in)+1)
	if !ok {
		return mesh.Unknown
	}
	return mesh.Rule(strings.Join(words[1:], ",") + "->" + words[0])
}

// Follow lets the parts of the concatenated dim have the layout of the result, for inference.
func (o concat) Follow(in, out []Type) (mesh.Rule, string) {
	rank := len(in[0].Shape)
	if rank > len(letters) {
		return mesh.Unknown, ""
	}
	word := wholeDim(factors(0, rank), o.Dim)
	size := fmt.Sprintf("; %s=%d", factors(o.Dim, 1), out[0].Shape[o.Dim])
	return mesh.Rule(strings.TrimSuffix(strings.Repeat(word+",", len(in)), ",") + "->" + word + size), ""
}

// joinWords names the factors of n tensors that share all dims but one. Along that dim each has a factor of
// its own, which must not be split.
func joinWords(rank, dim, n int) ([]string, bool) {
	if rank+n > len(letters) {
		return nil, false
	}
	word := factors(0, rank)
	words := make([]string, n)
	for i := range words {
		words[i] = word[:dim] + letters[rank+i:rank+i+1] + "*" + word[dim+1:]
	}
	return words, true
}

func (o concat) Eval(env *Env, in, out []array.Array) {
	at := 0
	to := whole(out[0])
	for _, x := range in {
		to.offset = at * to.strides[o.Dim]
		moveStrided(env, x.Shape(), to, whole(x))
		at += x.Shape()[o.Dim]
	}
}

// Loop requires operands of equal size, because one loop runs over all of them.
func (o concat) Loop(in, out []Type) (Loop, bool) {
	l := Loop{Kind: LoopJoin}
	strides := out[0].Shape.Strides()
	for i, t := range in {
		if !t.Shape.Equal(in[0].Shape) {
			return Loop{}, false
		}
		l.Writes = append(l.Writes, newElemWalk(t.Shape, i*t.Shape[o.Dim]*strides[o.Dim], strides))
	}
	return moveLoop(l)
}

func (o concat) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("concatenate", fmt.Sprintf("dimension = %d : i64", o.Dim), hloType(out[0]), in...)}
}

func (concat) Samples() []Sample {
	return []Sample{
		{Op: concat{Dim: 1}, In: []Arg{f32(5, 2, 6), f32(5, 3, 6), f32(5, 1, 6)}},
		{Op: concat{Dim: 0}, In: []Arg{f32(5, 2), f32(3, 2)}},
		{Op: concat{Dim: 1}, In: []Arg{f32(5, 2), f32(5, 0)}},
	}
}
