package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// Sum returns the sum over dims, which are dropped; no dims means all. Sums of integers and of booleans,
// which count the true ones, are i64.
func Sum(x *Tensor, dims ...int) *Tensor {
	return apply1(sum{Dims: normDims(len(x.Shape()), dims)}, counted(x))
}

// counted returns x, with integers and booleans cast to i64, so that large sums do not overflow.
func counted(x *Tensor) *Tensor {
	if x.Err() != nil || x.DType().IsFloat() {
		return x
	}
	return Cast(x, array.I64)
}

type sum struct{ Dims []int }

func (sum) Name() string    { return "sum" }
func (sum) Linear() [][]int { return [][]int{{0}} }

func (o sum) Infer(in []Type) ([]Type, error) {
	if err := wantSums(in, 1); err != nil {
		return nil, err
	}
	shape, err := reducedShape(in[0], o.Dims)
	return []Type{{DType: in[0].DType, Shape: shape}}, err
}

func (o sum) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{Expand(keepDims(dy[0], in[0], o.Dims), in[0].Shape()...)}
}

func (o sum) Rule(in []Type) mesh.Rule { return reduceRule(len(in[0].Shape), o.Dims, "sum") }

func (sum) Work(in, out []Type) Work {
	return Work{Flops: float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o sum) Eval(env *Env, in, out []array.Array) {
	if foldInts(env, in[0], out[0], o.Dims, foldOf(0, addInt[int64]), foldOf(0, addInt[int32])) {
		return
	}
	gs := groups(in[0].Shape(), o.Dims)
	float(out[0],
		func() { foldGroups(array.Data[float32](out[0]), array.Data[float32](in[0]), gs, sumFold[float32](env)) },
		func() { foldGroups(array.Data[float64](out[0]), array.Data[float64](in[0]), gs, sumFold[float64](env)) })
}

// foldInts reduces integers, and reports whether the operand is an integer.
func foldInts(env *Env, in, out array.Array, dims []int, i64 folding[int64], i32 folding[int32]) bool {
	switch in.DType() {
	case array.I64:
		i64.run(env, in, out, dims)
	case array.I32:
		i32.run(env, in, out, dims)
	default:
		return false
	}
	return true
}

// columnBlock is the number of columns that one task sums: wide enough for full cache lines.
const columnBlock = 256

func sumFold[T floats](env *Env) func(dst, x []T, g group) {
	return func(dst, x []T, g group) {
		if g.last {
			env.rows(g.outer, g.reduced, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					dst[i] = kernel.Sum(x[i*g.reduced : (i+1)*g.reduced])
				}
			})
			return
		}
		blocks := (g.inner + columnBlock - 1) / columnBlock
		env.rows(g.outer*blocks, g.reduced*min(columnBlock, g.inner), func(lo, hi int) {
			for t := lo; t < hi; t++ {
				o, c := t/blocks, t%blocks*columnBlock
				width := min(columnBlock, g.inner-c)
				part := dst[o*g.inner+c:][:width]
				clear(part)
				if g.reduced > 0 {
					kernel.AddRowsStride(part, x[o*g.reduced*g.inner+c:], g.reduced, g.inner)
				}
			}
		})
	}
}

func (o sum) Loop(in, _ []Type) (Loop, bool) {
	return foldLoop(in, o.Dims, lane.FoldSum, sum{Dims: []int{1}})
}

func (o sum) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitFold(w, "add", in[0], 0, o.Dims, out[0])}
}

func (sum) Samples() []Sample {
	return []Sample{
		{Op: sum{Dims: []int{0}}, In: []Arg{f32(5, 7, 6)}},
		{Op: sum{Dims: []int{1, 2}}, In: []Arg{f32(5, 7, 6)}},
		{Op: sum{Dims: []int{0, 2}}, In: []Arg{f32(5, 7, 6)}},
		{Op: sum{Dims: []int{0, 1, 2}}, In: []Arg{f32(5, 7, 6)}},
		{Op: sum{Dims: []int{0, 2}}, In: []Arg{i32Below(9, 5, 7, 6)}},
	}
}
