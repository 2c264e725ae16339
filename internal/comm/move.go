package comm

import "github.com/galley-ml/galley/array"

// move copies a box of bytes from one array to another: contiguous runs of bytes, repeated by nested loops.
// Positions are the box's bytes in row-major order.
type move struct {
	dst, src []byte // beginning at the box's first byte
	run      int    // bytes that are contiguous in both
	loops    []loop // innermost first
}

// loop is one level of repetition: the number of iterations and the strides in bytes.
type loop struct{ n, dst, src int }

// newMove merges the dims in which the box is contiguous in both arrays.
func newMove(dst array.Array, dstDim, to int, src array.Array, srcDim, from int, box typ) *move {
	dstStrides, srcStrides := dst.Shape().Strides(), src.Shape().Strides()
	size := box.dtype.Size()
	m := &move{
		dst: dst.Bytes()[to*dstStrides[dstDim]*size:],
		src: src.Bytes()[from*srcStrides[srcDim]*size:],
		run: size,
	}
	for d := len(box.shape) - 1; d >= 0; d-- {
		if box.shape[d] > 1 {
			m.add(loop{box.shape[d], dstStrides[d] * size, srcStrides[d] * size})
		}
	}
	return m
}

// add adds l as the outermost loop.
func (m *move) add(l loop) {
	if len(m.loops) == 0 {
		if l.dst == m.run && l.src == m.run {
			m.run *= l.n
			return
		}
	} else if in := &m.loops[len(m.loops)-1]; in.dst*in.n == l.dst && in.src*in.n == l.src {
		in.n *= l.n
		return
	}
	m.loops = append(m.loops, l)
}

// do copies the box's bytes lo to hi.
func (m *move) do(_ *Scratch, lo, hi int) {
	for lo < hi {
		at, skip := lo/m.run, lo%m.run
		if skip > 0 || hi-lo < m.run || len(m.loops) == 0 {
			n := min(m.run-skip, hi-lo)
			dst, src := m.offsets(at)
			copy(m.dst[dst+skip:dst+skip+n], m.src[src+skip:src+skip+n])
			lo += n
			continue
		}
		lo += m.run * m.row(at, (hi-lo)/m.run)
	}
}

// offsets returns the byte offsets of the given run relative to the first one.
func (m *move) offsets(at int) (dst, src int) {
	for _, l := range m.loops {
		i := at % l.n
		at /= l.n
		dst += i * l.dst
		src += i * l.src
	}
	return dst, src
}

// row copies up to limit whole runs from run at on, within the innermost loop, and returns their number.
func (m *move) row(at, limit int) int {
	in := m.loops[0]
	n := min(in.n-at%in.n, limit)
	dst, src := m.offsets(at)
	for range n {
		copy(m.dst[dst:dst+m.run], m.src[src:src+m.run])
		dst += in.dst
		src += in.src
	}
	return n
}
