package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// OneHot adds a new last dim of numClasses integers: one at the index and zero elsewhere. An index out of
// range gives zeros only.
func OneHot(indices *Tensor, numClasses int) *Tensor {
	return apply1(oneHot{NumClasses: numClasses}, indices)
}

// oneHot has NumClasses classes from Offset on. With Truth, the result is boolean instead of integer.
type oneHot struct {
	NumClasses, Offset int
	Truth              bool
}

func (oneHot) Name() string                    { return "one_hot" }
func (oneHot) NoGradient() string              { return "its operand is integers" }
func (oneHot) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (oneHot) Work(in, out []Type) Work        { return Work{Bytes: moved(in, out)} }

func (o oneHot) Infer(in []Type) ([]Type, error) {
	switch {
	case len(in) != 1:
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	case !in[0].DType.IsInt():
		return nil, fmt.Errorf("want indices: got %v", in[0])
	case o.NumClasses < 0 || o.Offset < 0 || o.NumClasses+o.Offset < 1:
		return nil, fmt.Errorf("numClasses is %d: want at least 1", o.NumClasses)
	}
	shape := append(in[0].Shape.Clone(), o.NumClasses)
	if !shape.Valid() {
		return nil, fmt.Errorf("%d classes of %v are too many elements", o.NumClasses, in[0])
	}
	if o.Truth {
		return []Type{{DType: array.Bool, Shape: shape}}, nil
	}
	return []Type{{DType: array.I64, Shape: shape}}, nil
}

// Into returns the op that produces the given dtype directly, in place of a cast of the result.
func (o oneHot) Into(dtype array.DType) (Op, bool) {
	o.Truth = true
	return o, dtype == array.Bool
}

func (o oneHot) Rule(in []Type) mesh.Rule {
	rank := len(in[0].Shape)
	return mesh.Rule(factors(0, rank) + "->" + factors(0, rank+1))
}

func (o oneHot) Localize(at *Place) (Op, error) {
	classes := at.OutRange(0, len(at.In[0].Shape))
	o.NumClasses, o.Offset = classes.Size, o.Offset+classes.Start
	return o, nil
}

func (o oneHot) Eval(env *Env, in, out []array.Array) {
	switch in[0].DType() {
	case array.I64:
		markClassesOf[int64](env, in[0], out[0], o)
	case array.I32:
		markClassesOf[int32](env, in[0], out[0], o)
	case array.U8:
		markClassesOf[uint8](env, in[0], out[0], o)
	}
}

func markClassesOf[T integer](env *Env, in, out array.Array, o oneHot) {
	if o.Truth {
		markClasses[T](env, array.Data[T](in), array.Raw[uint8](out), o)
		return
	}
	markClasses(env, array.Data[T](in), array.Data[int64](out), o)
}

func markClasses[T integer, D int64 | uint8](env *Env, index []T, dst []D, o oneHot) {
	n := o.NumClasses
	env.rows(len(index), n, func(lo, hi int) {
		clear(dst[lo*n : hi*n])
		for i := lo; i < hi; i++ {
			if c := int64(index[i]) - int64(o.Offset); 0 <= c && c < int64(n) {
				dst[i*n+int(c)] = 1
			}
		}
	})
}

func (o oneHot) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	t := hlo.Type{DType: array.I64, Shape: out[0].Shape}
	dims := make([]int, len(in[0].Shape))
	for i := range dims {
		dims[i] = i
	}
	index := w.Op("convert", "", hlo.Type{DType: array.I64, Shape: in[0].Shape}, in[0])
	index = rowPart{rows: o.NumClasses, offset: o.Offset}.emitLocal(w, index)
	hot := emitCompare(w, "EQ", w.Broadcast(index, t.Shape, dims), emitIota(w, t, len(dims)))
	if o.Truth {
		return []hlo.Ref{hot}
	}
	return []hlo.Ref{w.Op("convert", "", t, hot)}
}

func (oneHot) Samples() []Sample {
	return []Sample{
		{Op: oneHot{NumClasses: 9}, In: []Arg{i32Below(9, 5, 3)}},
		{Op: oneHot{NumClasses: 4}, In: []Arg{i32Below(6, 5)}},
		{Op: oneHot{NumClasses: 4, Offset: 3}, In: []Arg{i32Below(9, 8)}},
		{Op: oneHot{NumClasses: 5, Truth: true}, In: []Arg{i32Below(6, 8)}},
	}
}
