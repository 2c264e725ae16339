package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// lines describes a tensor along one dim: outer × inner lines of n elements, with a stride of inner.
type lines struct{ outer, n, inner int }

func linesOf(s array.Shape, dim int) lines {
	return lines{outer: s[:dim].Len(), n: s[dim], inner: s[dim+1:].Len()}
}

// lineBlock is the number of adjacent lines that are gathered together, so that every cache line is read
// once.
const lineBlock = 16

// eachLine calls f for every line of dst with the same lines of the operands. dst may be one of them.
func eachLine[T floats](env *Env, l lines, dst []T, src [][]T, f func(dst []T, src [][]T)) {
	if len(dst) == 0 {
		return
	}
	if l.inner > 1 {
		eachStridedLine(env, l, dst, src, f)
		return
	}
	env.rows(l.outer, l.n, func(lo, hi int) {
		at := make([][]T, len(src))
		for i := lo; i < hi; i++ {
			for j, s := range src {
				at[j] = s[i*l.n : (i+1)*l.n]
			}
			f(dst[i*l.n:(i+1)*l.n], at)
		}
	})
}

func eachStridedLine[T floats](env *Env, l lines, dst []T, src [][]T, f func(dst []T, src [][]T)) {
	blocks := (l.inner + lineBlock - 1) / lineBlock
	env.rows(l.outer*blocks, l.n*lineBlock, func(lo, hi int) {
		result, operands, at := make([]T, l.pitch()*lineBlock), make([][]T, len(src)), make([][]T, len(src))
		for j := range operands {
			operands[j] = make([]T, l.pitch()*lineBlock)
		}
		for b := lo; b < hi; b++ {
			column := b % blocks * lineBlock
			start, width := b/blocks*l.n*l.inner+column, min(lineBlock, l.inner-column)
			for j, s := range src {
				gatherLines(l, operands[j], s[start:], width)
			}
			for c := range width {
				for j := range at {
					at[j] = operands[j][c*l.pitch():][:l.n]
				}
				f(result[c*l.pitch():][:l.n], at)
			}
			scatterLines(l, dst[start:], result, width)
		}
	})
}

// pitch returns the distance between gathered lines. It is odd, so that elements that are adjacent in the
// tensor do not all map to one set of the cache.
func (l lines) pitch() int { return l.n | 1 }

// gatherLines copies width adjacent lines of x, one after another, to dst.
func gatherLines[T floats](l lines, dst, x []T, width int) {
	pitch := l.pitch()
	for r := range l.n {
		for c, v := range x[r*l.inner : r*l.inner+width] {
			dst[c*pitch+r] = v
		}
	}
}

// scatterLines is the inverse of gatherLines.
func scatterLines[T floats](l lines, dst, x []T, width int) {
	pitch := l.pitch()
	for r := range l.n {
		row := dst[r*l.inner : r*l.inner+width]
		for c := range row {
			row[c] = x[c*pitch+r]
		}
	}
}

// inferAlong checks n operands of one float type that has the dim.
func inferAlong(in []Type, n, dim int) ([]Type, error) {
	if err := wantFloats(in, n); err != nil {
		return nil, err
	}
	for _, t := range in {
		if !t.Shape.Equal(in[0].Shape) {
			return nil, fmt.Errorf("operands differ in shape: got %v and %v", in[0], t)
		}
	}
	if dim < 0 || dim >= len(in[0].Shape) {
		return nil, fmt.Errorf("dim %d does not fit %v", dim, in[0])
	}
	return []Type{in[0]}, nil
}

// lastWhole returns the factors of a shape whose last dim must not be split, and those of the dims before it.
func lastWhole(s array.Shape) (word, lead string) {
	word = factors(0, len(s))
	return wholeDim(word, len(s)-1), word[:len(s)-1]
}

// rowsOf returns a shape as a matrix: the number of rows and their length n, the last dim.
func rowsOf(s array.Shape) (rows, n int) { return s[:len(s)-1].Len(), s[len(s)-1] }

// wide returns x in its compute dtype.
func wide(x *Tensor) *Tensor { return Cast(x, x.DType().Compute()) }

// lastOf returns y, a reduction of x over its last dim, shaped to broadcast against x.
func lastOf(y, x *Tensor) *Tensor { return keepDims(y, x, []int{len(x.Shape()) - 1}) }

// plus returns x + y; either may be nil.
func plus(x, y *Tensor) *Tensor {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return Add(x, y)
}

// wantCompute checks that there are n float operands with one compute dtype.
func wantCompute(in []Type, n int) error {
	if len(in) != n {
		return fmt.Errorf("want %d operands: got %d", n, len(in))
	}
	for _, t := range in {
		if !t.DType.IsFloat() {
			return fmt.Errorf("want float operands: got %v", t)
		}
		if t.DType.Compute() != in[0].DType.Compute() {
			return fmt.Errorf("operands differ in dtype: got %v and %v: cast one of them", in[0], t)
		}
	}
	return nil
}
