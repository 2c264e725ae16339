package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ArgMax returns the index (i64) of the largest element along dim, which is dropped: the first of those that
// tie.
func ArgMax(x *Tensor, dim int) *Tensor { return apply1(argMax{Dim: normDim(len(x.Shape()), dim)}, x) }

type argMax struct {
	indexOf
	Dim int
}

func (argMax) Name() string                      { return "argmax" }
func (o argMax) Infer(in []Type) ([]Type, error) { return inferIndexOf(in, o.Dim) }
func (o argMax) Rule(in []Type) mesh.Rule {
	return wholeReduceRule(len(in[0].Shape),
		[]int{o.Dim})
}
func (o argMax) Eval(env *Env, in, out []array.Array) { findAlong(env, in[0], out[0], o.Dim, greatest) }

func (o argMax) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitIndexOf(w, "GT", lowest(in[0].DType), in[0], o.Dim, out[0])
}

func (argMax) Samples() []Sample {
	return []Sample{
		{Op: argMax{Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: argMax{Dim: 1}, In: []Arg{f32(5, 7, 6)}},
	}
}

// indexOf is embedded by ops that return the index of an element along a dim.
type indexOf struct{}

func (indexOf) Work(in, out []Type) Work        { return onePass(in, out) }
func (indexOf) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (indexOf) NoGradient() string              { return "its result is an index" }

func inferIndexOf(in []Type, dim int) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], dim); err != nil {
		return nil, err
	}
	if in[0].Shape[dim] == 0 {
		return nil, fmt.Errorf("dim %d of %v has no elements", dim, in[0])
	}
	return inferReduced(in, []int{dim}, array.I64)
}

// wantDim checks that t has the given dim.
func wantDim(t Type, dim int) error {
	if dim < 0 || dim >= len(t.Shape) {
		return fmt.Errorf("dim %d does not fit %v", dim, t)
	}
	return nil
}

// order says whether the greatest or the least element is looked for.
type order int

const (
	least    order = -1
	greatest order = 1
)

// findAlong writes the index of the first element along dim that is greatest or least, as o says.
func findAlong(env *Env, in, out array.Array, dim int, o order) {
	switch in.DType() {
	case array.F32:
		findLines[float32](env, in, out, dim, o)
	case array.F64:
		findLines[float64](env, in, out, dim, o)
	case array.I64:
		findLines[int64](env, in, out, dim, o)
	case array.I32:
		findLines[int32](env, in, out, dim, o)
	case array.U8:
		findLines[uint8](env, in, out, dim, o)
	}
}

func findLines[T number](env *Env, in, out array.Array, dim int, o order) {
	dst := array.Data[int64](out)
	foldLines(env, array.Data[T](in), nestAlong(in.Shape(), dim), func(at int, line []T) {
		best, where := line[0], 0
		for i, v := range line {
			// NaN counts as greatest and as least, so that it does not go unnoticed.
			if o == greatest && v > best || o == least && v < best || v != v && best == best {
				best, where = v, i
			}
		}
		dst[at] = int64(where)
	})
}

// emitIndexOf writes a reduction over pairs of element and index that keeps the better element and, if they
// tie, the smaller index.
func emitIndexOf(w *hlo.Writer, better string, worst float64, x hlo.Ref, dim int, out Type) []hlo.Ref {
	indexType := hlo.Type{DType: array.I64, Shape: x.Shape}
	index := w.Op("iota", fmt.Sprintf("iota_dimension = %d : i64", dim), indexType)
	v, i := hlo.Type{DType: x.DType}, hlo.Type{DType: array.I64}
	truth := hlo.Type{DType: array.Bool}
	region := w.Region([]hlo.Type{v, i, v, i}, func(in []hlo.Ref) []hlo.Ref {
		a, at, b, bt := in[0], in[1], in[2], in[3]
		wins := w.Op("or", "", truth, w.Compare(better, a, b), w.Compare("NE", a, a))
		first := w.Op("and", "", truth, w.Compare("EQ", a, b), w.Compare("LT", at, bt))
		takes := w.Op("or", "", truth, wins, first)
		return []hlo.Ref{w.Op("select", "", v, wins, a, b), w.Op("select", "", i, takes, at, bt)}
	})
	results := []hlo.Type{{DType: x.DType, Shape: out.Shape}, hloType(out)}
	refs := w.OpN("reduce", "dimensions = "+hlo.Ints([]int{dim}), []string{region}, results,
		x, index, w.Constant(v, worst), w.Constant(i, 0))
	return refs[1:]
}
