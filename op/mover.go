package op

import (
	"github.com/galley-ml/galley/array"
)

// mover is embedded by ops that only move elements: they work on bytes, so that one implementation serves
// every dtype.
type mover struct{}

func (mover) halfNative() {}

func (mover) Work(in, out []Type) Work { return Work{Bytes: moved(in, out)} }

// copyBytes copies a whole array.
func copyBytes(env *Env, dst, src array.Array) {
	d, s := dst.Bytes(), src.Bytes()
	env.Pool.For(len(d), 1<<17, func(lo, hi int) { copy(d[lo:hi], s[lo:hi]) })
}

// strided is an iteration over part of an array: its start and its strides, in elements.
type strided struct {
	array.Array
	offset  int
	strides []int
}

// whole returns the iteration over all of a, in its own order.
func whole(a array.Array) strided { return strided{Array: a, strides: a.Shape().Strides()} }

// moveStrided copies a box of the given shape from one strided array to another.
func moveStrided(env *Env, shape array.Shape, dst, src strided) {
	if shape.Len() == 0 {
		return
	}
	switch dst.DType().Size() {
	case 1:
		moveElems[uint8](env, shape, dst, src)
	case 2:
		moveElems[uint16](env, shape, dst, src)
	case 4:
		moveElems[uint32](env, shape, dst, src)
	case 8:
		moveElems[uint64](env, shape, dst, src)
	}
}

type bits interface {
	uint8 | uint16 | uint32 | uint64
}

func moveElems[T bits](env *Env, shape array.Shape, dst, src strided) {
	d, s := array.Raw[T](dst.Array), array.Raw[T](src.Array)
	b := newBox(shape, dst, src)
	across, down := blocks(b.cols, blockCols), blocks(b.rows, blockRows)
	env.rows(b.outer.Len()*down*across, min(b.rows, blockRows)*min(b.cols, blockCols), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			di, si := b.start(t / (down * across))
			part := block{row: t / across % down * blockRows, col: t % across * blockCols}
			part.rows, part.cols = min(blockRows, b.rows-part.row), min(blockCols, b.cols-part.col)
			di += part.row*b.dstRow + part.col*b.dstCol
			si += part.row*b.srcRow + part.col*b.srcCol
			moveBlock(b, part, d, s, di, si)
		}
	})
}

// Planes are split into blocks, so that threads can share one large plane.
const (
	blockRows = 64
	blockCols = 1 << 13
)

func blocks(n, size int) int { return (n + size - 1) / size }

// block is a part of a plane.
type block struct{ row, col, rows, cols int }

// moveBlock copies one block, which begins at d[di] and s[si]. If the source is contiguous along rows, it
// copies tiles, so that both sides stay within a few cache lines.
func moveBlock[T bits](b *box, part block, d, s []T, di, si int) {
	if b.dstCol == 1 && b.srcCol == 1 {
		for r := range part.rows {
			copy(d[di+r*b.dstRow:][:part.cols], s[si+r*b.srcRow:][:part.cols])
		}
		return
	}
	const tile = 16
	for r0 := 0; r0 < part.rows; r0 += tile {
		for c0 := 0; c0 < part.cols; c0 += tile {
			for r := r0; r < min(r0+tile, part.rows); r++ {
				dr, sr := di+r*b.dstRow, si+r*b.srcRow
				for c := c0; c < min(c0+tile, part.cols); c++ {
					d[dr+c*b.dstCol] = s[sr+c*b.srcCol]
				}
			}
		}
	}
}

// box is a loop nest over two strided arrays: outer dims, and a plane of rows and columns.
type box struct {
	outer                          array.Shape
	outerDst, outerSrc             []int
	rows, cols                     int
	dstRow, dstCol, srcRow, srcCol int
	dstAt, srcAt                   int
}

// newBox drops dims of size one, merges dims that are contiguous in both arrays, and makes a plane of the
// last dim and of the one along which the source is contiguous.
func newBox(shape array.Shape, dst, src strided) *box {
	var dims array.Shape
	var ds, ss []int
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if k := len(dims) - 1; k >= 0 && ds[k] == dst.strides[i]*n && ss[k] == src.strides[i]*n {
			dims[k], ds[k], ss[k] = dims[k]*n, dst.strides[i], src.strides[i]
			continue
		}
		dims, ds, ss = append(dims, n), append(ds, dst.strides[i]), append(ss, src.strides[i])
	}
	for len(dims) < 2 {
		dims, ds, ss = append(array.Shape{1}, dims...), append([]int{0}, ds...), append([]int{0}, ss...)
	}
	last := len(dims) - 1
	row := last - 1
	for i := range last {
		if ss[i] == 1 {
			row = i
		}
	}
	b := &box{
		rows: dims[row], dstRow: ds[row], srcRow: ss[row],
		cols: dims[last], dstCol: ds[last], srcCol: ss[last],
		dstAt: dst.offset, srcAt: src.offset,
	}
	for i := range last {
		if i != row {
			b.outer, b.outerDst, b.outerSrc = append(b.outer, dims[i]), append(b.outerDst, ds[i]), append(b.outerSrc,
				ss[i])
		}
	}
	return b
}

// start returns where plane p begins on both sides.
func (b *box) start(p int) (dst, src int) {
	dst, src = b.dstAt, b.srcAt
	for i := len(b.outer) - 1; i >= 0; i-- {
		at := p % b.outer[i]
		p /= b.outer[i]
		dst += at * b.outerDst[i]
		src += at * b.outerSrc[i]
	}
	return dst, src
}
