package checkpoint

import (
	"io"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// eachRun calls f for each run of elements that is contiguous both in a source of a shape, at a box, and in a
// target at another box of the same size; runs ascend in the source. from, to and n count elements.
func eachRun(src mesh.Box, srcShape []int, dst mesh.Box, dstShape []int,
	f func(from, to, n int) error) error {
	// Inner dims that are whole on both sides, and the first that is not, form one run.
	inner, n := len(src.Size), 1
	for inner > 0 {
		inner--
		n *= src.Size[inner]
		if src.Size[inner] != srcShape[inner] || src.Size[inner] != dstShape[inner] {
			break
		}
	}
	ss, ds := array.Shape(srcShape).Strides(), array.Shape(dstShape).Strides()
	from, to := 0, 0
	for d := range src.Start {
		from += src.Start[d] * ss[d]
		to += dst.Start[d] * ds[d]
	}
	var walk func(d, from, to int) error
	walk = func(d, from, to int) error {
		if d == inner {
			return f(from, to, n)
		}
		for i := range src.Size[d] {
			if err := walk(d+1, from+i*ss[d], to+i*ds[d]); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(0, from, to)
}

// Runs of at least directBytes are read directly; shorter ones from a window of windowBytes over the source,
// because a few long reads cost less than many short ones.
const (
	directBytes = 1 << 14
	windowBytes = 1 << 20
)

// window reads ascending runs of a source.
type window struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	at   int64 // where buf begins
}

func (w *window) read(dst []byte, off int64) error {
	if len(dst) >= directBytes {
		return readFull(w.r, dst, off)
	}
	if off < w.at || off+int64(len(dst)) > w.at+int64(len(w.buf)) {
		if err := w.fill(off); err != nil {
			return err
		}
	}
	copy(dst, w.buf[off-w.at:])
	return nil
}

func (w *window) fill(off int64) error {
	n := int(min(windowBytes, w.size-off))
	if cap(w.buf) < n {
		w.buf = make([]byte, n)
	}
	w.buf, w.at = w.buf[:n], off
	return readFull(w.r, w.buf, off)
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
