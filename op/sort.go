package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Sort returns x in ascending order along dim, and the original index of each element (i64). It is stable;
// NaN counts as the largest.
func Sort(x *Tensor, dim int) (values, indices *Tensor) {
	out := ir.Apply(sort{Dim: normDim(len(x.Shape()), dim)}, x)
	return out[0], out[1]
}

// SortDescending is like Sort with the largest first.
func SortDescending(x *Tensor, dim int) (values, indices *Tensor) {
	out := ir.Apply(sort{Dim: normDim(len(x.Shape()), dim), Descending: true}, x)
	return out[0], out[1]
}

type sort struct {
	Dim        int
	Descending bool
}

func (sort) Name() string { return "sort" }

func (o sort) Infer(in []Type) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	return []Type{in[0], {DType: array.I64, Shape: in[0].Shape}}, wantDim(in[0], o.Dim)
}

func (o sort) VJP(in, y, dy []*Tensor) []*Tensor { return placeBack(in[0], y[1], dy[0], o.Dim) }

// placeBack returns the gradient of x, of which elements were moved along dim from the positions in index.
func placeBack(x, index, dy *Tensor, dim int) []*Tensor {
	if dy == nil {
		return []*Tensor{nil}
	}
	return []*Tensor{scatterAlong(index, dy, dim, x.Dim(dim))}
}

func (o sort) Rule(in []Type) mesh.Rule {
	word := wholeDim(factors(0, len(in[0].Shape)), o.Dim)
	return mesh.Rule(word + "->" + word + "," + word)
}

func (o sort) Work(in, out []Type) Work {
	n := in[0].Shape[o.Dim]
	return Work{Flops: float64(in[0].Shape.Len()) * float64(bitLength(n)), Bytes: moved(in, out)}
}

// bitLength returns the approximate number of comparisons per element when sorting n elements.
func bitLength(n int) int {
	k := 0
	for ; n > 0; n >>= 1 {
		k++
	}
	return k
}

func (o sort) Eval(env *Env, in, out []array.Array) {
	rank := selection{dim: o.Dim, keep: in[0].Shape()[o.Dim], order: least}
	if o.Descending {
		rank.order = greatest
	}
	rank.run(env, in[0], out)
}

// selection writes the first keep elements along dim in an order, and their original indices.
type selection struct {
	dim, keep int
	order     order
}

func (s selection) run(env *Env, in array.Array, out []array.Array) {
	switch in.DType() {
	case array.F32:
		selectLines[float32](env, s, in, out)
	case array.F64:
		selectLines[float64](env, s, in, out)
	case array.I64:
		selectLines[int64](env, s, in, out)
	case array.I32:
		selectLines[int32](env, s, in, out)
	case array.U8:
		selectLines[uint8](env, s, in, out)
	}
}

// ranked is an element and its original index.
type ranked[T number] struct {
	value T
	at    int
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func selectLines[T number](env *Env, s selection, in array.Array, out []array.Array) {
	g := nestAlong(in.Shape(), s.dim)
	values, indices := array.Data[T](out[0]), array.Data[int64](out[1])
	foldLines(env, array.Data[T](in), g, func(at int, line []T) {
		start := at/g.inner*s.keep*g.inner + at%g.inner
		for i, r := range firstRanked(s, line) {
			values[start+i*g.inner], indices[start+i*g.inner] = r.value, int64(r.at)
		}
	})
}

// firstRanked returns the first elements of line in the selection's order.
func firstRanked[T number](s selection, line []T) []ranked[T] {
	before := func(x, y ranked[T]) int {
		if c := compareIn(s.order, x.value, y.value); c != 0 {
			return c
		}
		return x.at - y.at
	}
	if s.keep*insertionShare < len(line) {
		return insertRanked(s.keep, line, before)
	}
	if short, ok := any(line).([]float32); ok {
		return any(sortKeys(s, short)).([]ranked[T])
	}
	all := make([]ranked[T], len(line))
	for i, v := range line {
		all[i] = ranked[T]{v, i}
	}
	slices.SortFunc(all, before)
	return all[:s.keep]
}

// sortKeys is like firstRanked for float32: value and index form one integer that sorts as the pair does,
// which is several times faster than comparing pairs.
func sortKeys(s selection, line []float32) []ranked[float32] {
	keys := make([]uint64, len(line))
	for i, v := range line {
		keys[i] = uint64(sortKey(s.order, v))<<32 | uint64(uint32(i))
	}
	slices.Sort(keys)
	out := make([]ranked[float32], s.keep)
	for i, k := range keys[:s.keep] {
		at := int(uint32(k))
		out[i] = ranked[float32]{line[at], at}
	}
	return out
}

// sortKey returns an integer that is ordered as the floats are: both zeros are equal, and all NaNs are equal
// and above the rest.
func sortKey(o order, v float32) uint32 {
	k := math.Float32bits(v)
	switch {
	case v == 0:
		k = 1 << 31
	case v != v:
		k = math.MaxUint32
	case k>>31 == 1:
		k = ^k
	default:
		k |= 1 << 31
	}
	if o == greatest {
		return ^k
	}
	return k
}

// insertionShare is how many times longer than the selection a line must be for insertion to beat sorting.
const insertionShare = 8

// insertRanked keeps a sorted list of the best so far: most elements need only one comparison, with its last
// element.
func insertRanked[T number](keep int, line []T, before func(x, y ranked[T]) int) []ranked[T] {
	best := make([]ranked[T], 0, keep+1)
	for i, v := range line {
		r := ranked[T]{v, i}
		if len(best) == keep && (keep == 0 || before(best[keep-1], r) < 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, r, before)
		best = slices.Insert(best, at, r)
		best = best[:min(len(best), keep)]
	}
	return best
}

// compareIn compares x and y in the order; NaN counts as the largest.
func compareIn[T number](o order, x, y T) int {
	switch {
	case x == y:
		return 0
	case x != x || y != y:
		return int(o) * (boolInt(y != y) - boolInt(x != x))
	case x < y:
		return int(o)
	}
	return -int(o)
}

func (o sort) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitSort(w, in[0], o)
}

// emitSort sorts pairs of element and index by the element.
func emitSort(w *hlo.Writer, x hlo.Ref, o sort) []hlo.Ref {
	direction := "LT"
	if o.Descending {
		direction = "GT"
	}
	places := hlo.Type{DType: array.I64, Shape: x.Shape}
	v, i, truth := hlo.Type{DType: x.DType}, hlo.Type{DType: array.I64}, hlo.Type{DType: array.Bool}
	region := w.Region([]hlo.Type{v, v, i, i}, func(in []hlo.Ref) []hlo.Ref {
		if !x.DType.IsFloat() {
			return []hlo.Ref{w.Compare(direction, in[0], in[1])}
		}
		attrs := "comparison_direction = #stablehlo<comparison_direction " + direction +
			">, compare_type = #stablehlo<comparison_type TOTALORDER>"
		return []hlo.Ref{w.Op("compare", attrs, truth, emitSortKey(w, in[0]), emitSortKey(w, in[1]))}
	})
	attrs := fmt.Sprintf("dimension = %d : i64, is_stable = true", o.Dim)
	return w.OpN("sort", attrs, []string{region}, []hlo.Type{x.Type, places}, x, emitIota(w, places, o.Dim))
}

// emitSortKey makes both zeros equal, and all NaNs equal and above the rest, in the total order of floats.
func emitSortKey(w *hlo.Writer, x hlo.Ref) hlo.Ref {
	zero := w.Constant(x.Type, 0)
	x = w.Op("select", "", x.Type, w.Compare("EQ", x, zero), zero, x)
	return w.Op("select", "", x.Type, w.Compare("NE", x, x), w.Constant(x.Type, math.NaN()), x)
}

func (sort) Samples() []Sample {
	return []Sample{
		{Op: sort{Dim: 1, Descending: true}, In: []Arg{f32(5, 7)}},
		{Op: sort{Dim: 1}, In: []Arg{f32(5, 7, 6)}},
	}
}
