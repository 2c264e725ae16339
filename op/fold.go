package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// KeepDims returns y, a reduction of x along dims, with those dims put back as ones, so that it broadcasts
// against x. The dims are those given to the reduction; none means all.
func KeepDims(y, x *Tensor, dims ...int) *Tensor {
	if y.Err() != nil {
		return y
	}
	return keepDims(y, x, normDims(len(x.Shape()), dims))
}

// inferReduced returns the type of a reduction to elements of the given dtype.
func inferReduced(in []Type, dims []int, dtype array.DType) ([]Type, error) {
	shape, err := reducedShape(in[0], dims)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: dtype, Shape: shape}}, nil
}

// wantNumbers checks that there is one operand and that it is numeric.
func wantNumbers(in []Type) error {
	if len(in) != 1 {
		return fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if in[0].DType == array.Bool {
		return fmt.Errorf("want numbers: got %v", in[0])
	}
	return nil
}

// wholeReduceRule returns the rule of a reduction whose reduced dims must not be split, because partial
// results cannot be combined.
func wholeReduceRule(rank int, dims []int) mesh.Rule {
	word := factors(0, rank)
	in, out := "", ""
	for d := range rank {
		in += word[d : d+1]
		if slices.Contains(dims, d) {
			in += "*"
		} else {
			out += word[d : d+1]
		}
	}
	return mesh.Rule(in + "->" + out)
}

// onePass returns the cost of reading every operand element once.
func onePass(in, out []Type) Work {
	return Work{Flops: float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

// reductionSamples covers the possible positions of reduced dims, on operands made by arg.
func reductionSamples(arg func(shape ...int) Arg, of func(dims ...int) Op) []Sample {
	return []Sample{
		{Op: of(0), In: []Arg{arg(5, 7, 6)}},
		{Op: of(2), In: []Arg{arg(5, 7, 6)}},
		{Op: of(1, 2), In: []Arg{arg(5, 7, 6)}},
		{Op: of(0, 2), In: []Arg{arg(5, 7, 6)}},
		{Op: of(0, 1, 2), In: []Arg{arg(5, 7, 6)}},
	}
}

// folding holds the kernels of a reduction: over one row, of two rows elementwise, and the result for no
// elements.
type folding[T array.Elem] struct {
	row  func(x []T) T
	pair func(dst, x, y []T)
	none T
}

// foldOf makes a folding from a function of two elements.
func foldOf[T array.Elem](none T, f func(x, y T) T) folding[T] {
	row := func(xs []T) T {
		acc := none
		for _, x := range xs {
			acc = f(acc, x)
		}
		return acc
	}
	return folding[T]{row: row, pair: each2(f), none: none}
}

// run reduces in along dims into out.
func (f folding[T]) run(env *Env, in, out array.Array, dims []int) {
	gs := groups(in.Shape(), dims)
	foldGroups(array.Data[T](out), array.Data[T](in), gs, func(dst, x []T, g group) { f.group(env, dst, x, g) })
}

func (f folding[T]) group(env *Env, dst, x []T, g group) {
	switch {
	case g.reduced == 0:
		for i := range dst {
			dst[i] = f.none
		}
	case g.last:
		env.rows(g.outer, g.reduced, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				dst[i] = f.row(x[i*g.reduced : (i+1)*g.reduced])
			}
		})
	default:
		f.columns(env, dst, x, g)
	}
}

func (f folding[T]) columns(env *Env, dst, x []T, g group) {
	g.eachBlock(env, columnBlock, func(o, c, width int) {
		part := dst[o*g.inner+c:][:width]
		from := x[o*g.reduced*g.inner+c:]
		copy(part, from[:width])
		for r := 1; r < g.reduced; r++ {
			f.pair(part, part, from[r*g.inner:][:width])
		}
	})
}

// eachBlock calls f for every outer position and block of adjacent columns.
func (g group) eachBlock(env *Env, size int, f func(o, c, width int)) {
	blocks := (g.inner + size - 1) / size
	env.rows(g.outer*blocks, g.reduced*min(size, g.inner), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			c := t % blocks * size
			f(t/blocks, c, min(size, g.inner-c))
		}
	})
}

// gatherBlock is the number of columns that are gathered at once: a cache line of float32.
const gatherBlock = 16

// foldLines calls f with every line along the reduced dim of x and the line's index among outer × inner. A
// line is contiguous; f must not retain it.
func foldLines[T array.Elem](env *Env, x []T, g group, f func(at int, line []T)) {
	if g.inner == 1 {
		env.rows(g.outer, g.reduced, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				f(i, x[i*g.reduced:(i+1)*g.reduced])
			}
		})
		return
	}
	g.eachBlock(env, gatherBlock, func(o, c, width int) {
		buf := make([]T, width*g.reduced)
		for r := range g.reduced {
			for j, v := range x[(o*g.reduced+r)*g.inner+c:][:width] {
				buf[j*g.reduced+r] = v
			}
		}
		for j := range width {
			f(o*g.inner+c+j, buf[j*g.reduced:(j+1)*g.reduced])
		}
	})
}

// nestAlong returns the loop nest of an op along one dim.
func nestAlong(shape array.Shape, dim int) group {
	return group{outer: shape[:dim].Len(), reduced: shape[dim], inner: shape[dim+1:].Len()}
}
