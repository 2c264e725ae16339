package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// broadcastShapes returns the common shape of operands: dims are matched from the last, and a dim of size one
// is repeated.
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

// zipLoop iterates over operands of different shapes as one loop nest: each outer position is a run of inner
// elements, along which an operand either advances by one or stays.
type zipLoop struct {
	inner int
	outer array.Shape
	// stride[i] is operand i's step along each outer dim, in elements; run[i] is 1 or 0 along the inner dim.
	stride [][]int
	run    []int
}

// newZipLoop merges the dims of out as far as the operands allow.
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

// mergeable reports whether dim d is contiguous with the last merged dim for every operand.
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

// broadcastStrides returns the step of s along each dim of out; 0 where s is repeated.
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

// each calls the function that begin returns for every piece of the loop, with the first element of the
// result, the count, and each operand's first element. begin is called once per task, so that its function
// may own buffers.
func (z *zipLoop) each(env *Env, begin func() func(out, n int, in []int)) {
	positions := z.outer.Len()
	if positions == 1 {
		env.split(z.inner, func(lo, hi int) {
			in := make([]int, len(z.run))
			for i, r := range z.run {
				in[i] = lo * r
			}
			begin()(lo, hi-lo, in)
		})
		return
	}
	env.rows(positions, z.inner, func(lo, hi int) {
		in, f := make([]int, len(z.run)), begin()
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

// runs reads one operand of a loop piece by piece.
type runs[T any] struct {
	x      []T
	run    int
	buf    []T
	filled int // element of x that buf repeats, plus one
}

func newRuns[T array.Elem](z *zipLoop, i int, a array.Array) runs[T] {
	return runs[T]{x: array.Data[T](a), run: z.run[i]}
}

// at returns n elements starting at element i: the slice itself, or one element repeated.
func (r *runs[T]) at(i, n int) []T {
	if r.run == 1 || n == 1 {
		return r.x[i : i+n]
	}
	if r.filled == i+1 && len(r.buf) >= n {
		return r.buf[:n]
	}
	if cap(r.buf) < n {
		r.buf = make([]T, n)
	}
	r.buf = r.buf[:n]
	r.buf[0], r.filled = r.x[i], i+1
	for done := 1; done < n; done *= 2 {
		copy(r.buf[done:], r.buf[:done])
	}
	return r.buf
}

// zip2 computes out = f(x, y) with x and y broadcast together.
func zip2[T, U array.Elem](env *Env, out, x, y array.Array, f func(dst []U, x, y []T)) {
	z := newZipLoop(out.Shape(), x.Shape(), y.Shape())
	dst := array.Data[U](out)
	if len(dst) == 0 {
		return
	}
	z.each(env, func() func(at, n int, in []int) {
		xs, ys := newRuns[T](z, 0, x), newRuns[T](z, 1, y)
		return func(at, n int, in []int) {
			for n > 0 { // in pieces, so that a repeated element needs only a small buffer
				m := min(n, zipPiece)
				f(dst[at:at+m], xs.at(in[0], m), ys.at(in[1], m))
				at, n = at+m, n-m
				in[0] += m * z.run[0]
				in[1] += m * z.run[1]
			}
		}
	})
}

// zipPiece is the longest run that is passed to a kernel at once.
const zipPiece = 1 << 12

// SumTo sums x over the dims that shape lacks or has as one: the transpose of broadcasting.
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
