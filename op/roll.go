package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Roll shifts elements by shifts[i] positions along dims[i], wrapping around. Without dims, x is rolled as a
// flat vector by the only shift.
func Roll(x *Tensor, shifts, dims []int) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(dims) == 0 {
		return Reshape(apply1(roll{Shift: shifts, Dims: []int{0}}, Reshape(x, x.Shape().Len())), x.Shape()...)
	}
	own := make([]int, len(dims))
	for i, d := range dims {
		own[i] = normDim(len(x.Shape()), d)
	}
	return apply1(roll{Shift: shifts, Dims: own}, x)
}

type roll struct {
	mover
	Shift, Dims []int
}

func (roll) Name() string    { return "roll" }
func (roll) Linear() [][]int { return [][]int{{0}} }

func (o roll) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 || !distinct(in[0], o.Dims) || len(o.Shift) != len(o.Dims) {
		return nil, fmt.Errorf("shifts %v along dims %v do not fit %v", o.Shift, o.Dims, in)
	}
	return []Type{in[0]}, nil
}

func (o roll) VJP(_, _, dy []*Tensor) []*Tensor {
	back := make([]int, len(o.Shift))
	for i, s := range o.Shift {
		back[i] = -s
	}
	return []*Tensor{Roll(dy[0], back, o.Dims)}
}

func (o roll) Rule(in []Type) mesh.Rule { return mixRule(len(in[0].Shape), o.Dims) }

// Follow lets a rolled dim keep its layout, for inference.
func (o roll) Follow(in, _ []Type) (mesh.Rule, string) {
	return followDims(len(in[0].Shape), 2, o.Dims)
}

// cuts returns, for each rolled dim, where the operand is cut: the part before it moves to the end.
func (o roll) cuts(shape array.Shape) []int {
	cuts := make([]int, len(o.Dims))
	for i, d := range o.Dims {
		if n := shape[d]; n > 0 {
			cuts[i] = ((-o.Shift[i])%n + n) % n
		}
	}
	return cuts
}

func (o roll) Eval(env *Env, in, out []array.Array) {
	cuts := o.cuts(in[0].Shape())
	for corner := range 1 << len(o.Dims) {
		shape := in[0].Shape().Clone()
		from, to := whole(in[0]), whole(out[0])
		for i, d := range o.Dims {
			n := shape[d]
			if corner>>i&1 == 0 {
				shape[d] = cuts[i]
				to.offset += (n - cuts[i]) * to.strides[d]
			} else {
				shape[d] = n - cuts[i]
				from.offset += cuts[i] * from.strides[d]
			}
		}
		moveStrided(env, shape, to, from)
	}
}

func (o roll) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	x := in[0]
	for i, cut := range o.cuts(x.Shape) {
		d := o.Dims[i]
		piece := func(lo, hi int) hlo.Ref {
			start, end := make([]int, len(x.Shape)), x.Shape.Clone()
			start[d], end[d] = lo, hi
			shape := x.Shape.Clone()
			shape[d] = hi - lo
			return emitSlice(w, x, start, end, ones(len(start)), Type{DType: x.DType, Shape: shape})
		}
		x = w.Op("concatenate", fmt.Sprintf("dimension = %d : i64", d), hloType(out[0]), piece(cut, x.Shape[d]),
			piece(0, cut))
	}
	return []hlo.Ref{x}
}

func (roll) Samples() []Sample {
	return []Sample{
		{Op: roll{Shift: []int{2}, Dims: []int{1}}, In: []Arg{f32(5, 7)}},
		{Op: roll{Shift: []int{-8, 3}, Dims: []int{0, 2}}, In: []Arg{f32(5, 7, 6)}},
	}
}
