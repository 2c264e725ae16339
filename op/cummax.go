package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// CumMax returns the running maximum along dim, and the index (i64) of it: the last one of elements that tie.
func CumMax(x *Tensor, dim int) (values, indices *Tensor) {
	r := ir.Apply(cumMax{Dim: normDim(len(x.Shape()), dim)}, x)
	return r[0], r[1]
}

// CumMin returns the running minimum along dim, and the index (i64) of it: the last one of elements that tie.
func CumMin(x *Tensor, dim int) (values, indices *Tensor) {
	r := ir.Apply(cumMin{Dim: normDim(len(x.Shape()), dim)}, x)
	return r[0], r[1]
}

type cumMax struct {
	runningExtreme
	Dim int
}

func (cumMax) Name() string                           { return "cummax" }
func (o cumMax) Infer(in []Type) ([]Type, error)      { return inferRunning(in, o.Dim) }
func (o cumMax) Rule(in []Type) mesh.Rule             { return runningRule(len(in[0].Shape), o.Dim) }
func (o cumMax) VJP(in, out, dy []*Tensor) []*Tensor  { return runningVJP(in, out, dy, o.Dim) }
func (o cumMax) Eval(env *Env, in, out []array.Array) { runAlong(env, in[0], out, o.Dim, greatest) }

func (o cumMax) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitRunning(w, "maximum", lowest(in[0].DType), in[0], o.Dim, out)
}

func (o cumMax) Samples() []Sample {
	return []Sample{{Op: cumMax{Dim: 1}, In: []Arg{f32(5, 7, 6)}}, {Op: cumMax{Dim: 0}, In: []Arg{f32(5, 7)}}}
}

type cumMin struct {
	runningExtreme
	Dim int
}

func (cumMin) Name() string                           { return "cummin" }
func (o cumMin) Infer(in []Type) ([]Type, error)      { return inferRunning(in, o.Dim) }
func (o cumMin) Rule(in []Type) mesh.Rule             { return runningRule(len(in[0].Shape), o.Dim) }
func (o cumMin) VJP(in, out, dy []*Tensor) []*Tensor  { return runningVJP(in, out, dy, o.Dim) }
func (o cumMin) Eval(env *Env, in, out []array.Array) { runAlong(env, in[0], out, o.Dim, least) }

func (o cumMin) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitRunning(w, "minimum", highest(in[0].DType), in[0], o.Dim, out)
}

func (o cumMin) Samples() []Sample {
	return []Sample{{Op: cumMin{Dim: 1}, In: []Arg{f32(5, 7, 6)}}, {Op: cumMin{Dim: 0}, In: []Arg{f32(5, 7)}}}
}

// runningExtreme is embedded by CumMax and CumMin.
type runningExtreme struct{}

func (runningExtreme) NumResults(int) int       { return 2 }
func (runningExtreme) Work(in, out []Type) Work { return onePass(in, out) }

func inferRunning(in []Type, dim int) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	if err := wantDim(in[0], dim); err != nil {
		return nil, err
	}
	return []Type{in[0], {DType: array.I64, Shape: in[0].Shape}}, nil
}

func runningRule(rank, dim int) mesh.Rule {
	word := wholeDim(factors(0, rank), dim)
	return mesh.Rule(word + "->" + word + "," + word)
}

// runningVJP adds the gradient of each result to the element that it was taken from.
func runningVJP(in, out, dy []*Tensor, dim int) []*Tensor {
	if dy[0] == nil || !in[0].DType().IsFloat() {
		return []*Tensor{nil}
	}
	return []*Tensor{scatterAlong(out[1], dy[0], dim, in[0].Dim(dim))}
}

func runAlong(env *Env, in array.Array, out []array.Array, dim int, o order) {
	switch in.DType() {
	case array.F32:
		runLines[float32](env, in, out, dim, o)
	case array.F64:
		runLines[float64](env, in, out, dim, o)
	case array.I64:
		runLines[int64](env, in, out, dim, o)
	case array.I32:
		runLines[int32](env, in, out, dim, o)
	case array.U8:
		runLines[uint8](env, in, out, dim, o)
	}
}

// runLines keeps the best element so far; NaN wins over any number, so that it does not go unnoticed.
func runLines[T number](env *Env, in array.Array, out []array.Array, dim int, o order) {
	g := nestAlong(in.Shape(), dim)
	x, values, indices := array.Data[T](in), array.Data[T](out[0]), array.Data[int64](out[1])
	env.rows(g.outer, g.reduced*g.inner, func(lo, hi int) {
		for line := lo; line < hi; line++ {
			for c := range g.inner {
				first := line*g.reduced*g.inner + c
				var best T
				where := 0
				for k := range g.reduced {
					v := x[first+k*g.inner]
					if k == 0 || v != v || best == best && (v == best || (v > best) == (o == greatest)) {
						best, where = v, k
					}
					values[first+k*g.inner], indices[first+k*g.inner] = best, int64(where)
				}
			}
		}
	})
}

// emitRunning reduces a window that ends at each element. An element is the best so far where it equals the
// result, and the last such position is the index.
func emitRunning(w *hlo.Writer, binary string, worst float64, x hlo.Ref, dim int, out []Type) []hlo.Ref {
	rank, n := len(x.Shape), x.Shape[dim]
	if n == 0 {
		return []hlo.Ref{x, w.Constant(hloType(out[1]), 0)}
	}
	win := window{size: ones(rank), stride: ones(rank), low: make([]int, rank), high: make([]int, rank)}
	win.size[dim], win.low[dim] = n, n-1
	best := emitWindow(w, binary, worst, x, win, out[0])
	isBest := w.Compare("EQ", x, best)
	place := w.Op("iota", fmt.Sprintf("iota_dimension = %d : i64", dim), hloType(out[1]))
	where := w.Op("select", "", hloType(out[1]), isBest, place, w.Constant(hloType(out[1]), 0))
	return []hlo.Ref{best, emitWindow(w, "maximum", 0, where, win, out[1])}
}
