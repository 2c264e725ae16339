package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// broadcastShapes is the shape that operands take together: dims are matched from the last, and a dim of one is
// repeated.
func broadcastShapes(shapes ...array.Shape) (array.Shape, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make(array.Shape, rank)
	for d := range out {
		out[d] = 1
	}
	for _, s := range shapes {
		for i, n := range s {
			o := &out[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = n
			case n != 1 && n != *o:
				return nil, fmt.Errorf("cannot broadcast %v together: sizes %d and %d", shapes, *o, n)
			}
		}
	}
	return out, nil
}

// zipLoop walks operands of different shapes as one loop nest: outer positions, each a run of inner elements in
// which an operand either advances by one or stays.
type zipLoop struct {
	inner int
	outer array.Shape
	// stride[i] is operand i's step along each outer dim, in elements; run[i] is 1 or 0 along the inner one.
	stride [][]int
	run    []int
}

// newZipLoop collapses the dims of out as far as the operands allow.
func newZipLoop(out array.Shape, in ...array.Shape) *zipLoop {
	strides := make([][]int, len(in))
	for i, s := range in {
		strides[i] = broadcastStrides(s, out)
	}
	var dims array.Shape
	steps := make([][]int, len(in))
	for d, n := range out {
		if n == 1 {
			continue
		}
		if len(dims) > 0 && mergeable(strides, steps, d, n) {
			dims[len(dims)-1] *= n
			for i := range steps {
				steps[i][len(dims)-1] = strides[i][d]
			}
			continue
		}
		dims = append(dims, n)
		for i := range steps {
			steps[i] = append(steps[i], strides[i][d])
		}
	}
	return splitInner(dims, steps)
}

// mergeable reports whether dim d continues the last collapsed dim for every operand.
func mergeable(strides, steps [][]int, d, n int) bool {
	for i := range strides {
		if last := steps[i][len(steps[i])-1]; last != strides[i][d]*n {
			return false
		}
	}
	return true
}

func splitInner(dims array.Shape, steps [][]int) *zipLoop {
	z := &zipLoop{inner: 1, stride: steps, run: make([]int, len(steps))}
	if n := len(dims); n > 0 {
		z.inner, z.outer = dims[n-1], dims[:n-1]
		for i := range steps {
			z.run[i], z.stride[i] = steps[i][n-1], steps[i][:n-1]
		}
	}
	return z
}

// broadcastStrides is the step along each dim of out; 0 where s is repeated.
func broadcastStrides(s, out array.Shape) []int {
	own := s.Strides()
	strides := make([]int, len(out))
	for i := range s {
		if s[i] != 1 {
			strides[len(out)-len(s)+i] = own[i]
		}
	}
	return strides
}

// each calls f for every piece of the loop: the first element of the result, the count, and each operand's first
// element.
func (z *zipLoop) each(env *Env, f func(out, n int, in []int)) {
	positions := z.outer.Len()
	if positions == 1 {
		env.split(z.inner, func(lo, hi int) {
			in := make([]int, len(z.run))
			for i, r := range z.run {
				in[i] = lo * r
			}
			f(lo, hi-lo, in)
		})
		return
	}
	env.rows(positions, z.inner, func(lo, hi int) {
		in := make([]int, len(z.run))
		for p := lo; p < hi; p++ {
			z.offsets(p, in)
			f(p*z.inner, z.inner, in)
		}
	})
}

func (z *zipLoop) offsets(p int, in []int) {
	clear(in)
	for d := len(z.outer) - 1; d >= 0; d-- {
		at := p % z.outer[d]
		p /= z.outer[d]
		for i := range in {
			in[i] += at * z.stride[i][d]
		}
	}
}

// runOf is operand i's n elements from at: the slice itself, or one element repeated into buf.
func runOf[T any](z *zipLoop, i int, x []T, at, n int, buf *[]T) []T {
	if z.run[i] == 1 || n == 1 {
		return x[at : at+n]
	}
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	b := (*buf)[:n]
	for j := range b {
		b[j] = x[at]
	}
	return b
}

// zip2 computes out = f(x, y) with x and y broadcast together.
func zip2[T, U array.Elem](env *Env, out, x, y array.Array, f func(dst []U, x, y []T)) {
	z := newZipLoop(out.Shape(), x.Shape(), y.Shape())
	dst, xs, ys := array.Data[U](out), array.Data[T](x), array.Data[T](y)
	if len(dst) == 0 {
		return
	}
	z.each(env, func(at, n int, in []int) {
		for n > 0 { // in pieces, so that a repeated element needs only a small buffer
			m := min(n, zipPiece)
			var bx, by []T
			f(dst[at:at+m], runOf(z, 0, xs, in[0], m, &bx), runOf(z, 1, ys, in[1], m, &by))
			at, n = at+m, n-m
			in[0] += m * z.run[0]
			in[1] += m * z.run[1]
		}
	})
}

// zipPiece is the longest run handed to a kernel at once.
const zipPiece = 1 << 12

// SumTo is the sum of x over the dims that shape lacks or has as one: the transpose of broadcasting.
func SumTo(x *Tensor, shape array.Shape) *Tensor {
	if x.Shape().Equal(shape) || x.Err() != nil {
		return x
	}
	extra := len(x.Shape()) - len(shape)
	var dims []int
	for d, n := range x.Shape() {
		if d < extra || shape[d-extra] == 1 && n != 1 {
			dims = append(dims, d)
		}
	}
	return Reshape(Sum(x, dims...), shape...)
}
