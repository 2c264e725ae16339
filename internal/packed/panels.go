package packed

import (
	"sync"
	"unsafe"

	"github.com/galley-ml/galley/internal/kernel"
)

// width is how many rows of a weight are a panel: the columns of a product that are summed at once.
const width = 64

// panels is a weight in panels: element (j, p) is at ((j/width)*in+p)*width + j%width, and rows up to a
// multiple of width are zeros.
type panels[W float32 | uint16] struct {
	out, in int
	data    []W
}

func pack[W float32 | uint16](s Source, narrow func(float32) W) *panels[W] {
	w := &panels[W]{in: s.parts[0].in()}
	for _, p := range s.parts {
		w.out += p.out()
	}
	w.data = kernel.MakeLarge[W]((w.out + width - 1) / width * width * w.in)
	row, at := make([]float32, w.in), 0
	for _, p := range s.parts {
		for j := range p.out() {
			p.row(row, j)
			to := w.data[w.at(at+j, 0):]
			for i, x := range row {
				to[i*width] = narrow(x)
			}
		}
		at += p.out()
	}
	return w
}

func (w *panels[W]) at(j, p int) int { return (j/width*w.in+p)*width + j%width }

func (w *panels[W]) Out() int   { return w.out }
func (w *panels[W]) In() int    { return w.in }
func (w *panels[W]) Bytes() int { return len(w.data) * int(unsafe.Sizeof(w.data[0])) }

func (w *panels[W]) Row(dst []float32, j int) {
	from := w.data[w.at(j, 0):]
	for i := range w.in {
		dst[i] = widened(from[i*width])
	}
}

func widened[W float32 | uint16](x W) float32 {
	if h, ok := any(x).(uint16); ok {
		return kernel.BF16ToF32(h)
	}
	return float32(x)
}

// taskBytes is how much of a weight a thread takes at a time.
const taskBytes = 1 << 17

func (w *panels[W]) Multiply(p *kernel.Pool, y, x []float32, rows int) {
	if rows == 0 {
		return
	}
	count := (w.out + width - 1) / width
	size := max(1, w.in*width*int(unsafe.Sizeof(w.data[0])))
	grain := max(1, taskBytes/size)
	if p.Threads() == 1 || count <= grain {
		w.multiply(y, x, rows, 0, count)
		return
	}
	j := jobs.Get().(*job)
	j.y, j.x, j.rows, j.w = y, x, rows, w
	p.For(count, grain, j.run)
	j.y, j.x, j.w = nil, nil, nil
	jobs.Put(j)
}

// job is a product in progress; they are kept, so that a product allocates nothing.
type job struct {
	y, x []float32
	rows int
	w    interface {
		multiply(y, x []float32, rows, lo, hi int)
	}
	run func(lo, hi int)
}

var jobs = sync.Pool{New: func() any {
	j := new(job)
	j.run = func(lo, hi int) { j.w.multiply(j.y, j.x, j.rows, lo, hi) }
	return j
}}

// multiply computes panels lo to hi.
func (w *panels[W]) multiply(y, x []float32, rows, lo, hi int) {
	for q := lo; q < hi; q++ {
		cols := min(width, w.out-q*width)
		if cols%kernel.OrderedLanes == 0 {
			w.panel(y[q*width:], w.out, x, rows, q, cols)
			continue
		}
		t := tails.Get().(*tail)
		if len(t.y) < rows*width {
			t.y = make([]float32, rows*width)
		}
		w.panel(t.y, width, x, rows, q, width)
		for i := range rows {
			copy(y[i*w.out+q*width:i*w.out+w.out], t.y[i*width:])
		}
		tails.Put(t)
	}
}

// tail is room for a panel of which only some columns are wanted.
type tail struct{ y []float32 }

var tails = sync.Pool{New: func() any { return new(tail) }}

// blockRows is how many rows pass through a panel at a time: their sums stay in the cache from one block of
// terms to the next, also where rows of y are so far apart that they share the cache's sets.
const blockRows = 96

// panel computes one panel.
func (w *panels[W]) panel(y []float32, ldy int, x []float32, rows, q, cols int) {
	data := w.data[q*w.in*width : (q+1)*w.in*width]
	for i := 0; i < rows; i += blockRows {
		w.block(y[i*ldy:], ldy, x[i*w.in:], min(blockRows, rows-i), data, cols)
	}
}

// block computes some rows of a panel, by blocks of terms that stay in the cache from one row to the next.
func (w *panels[W]) block(y []float32, ldy int, x []float32, rows int, data []W, cols int) {
	for i := range rows {
		clear(y[i*ldy : i*ldy+cols])
	}
	for k := 0; k < w.in; k += kernel.OrderedTerms {
		o := kernel.Ordered{
			Rows: rows,
			K:    min(kernel.OrderedTerms, w.in-k),
			Cols: cols,
			LDY:  ldy,
			LDX:  w.in,
			LDW:  width,
		}
		switch d := any(data[k*width:]).(type) {
		case []float32:
			o.F32(y, x[k:], d)
		case []uint16:
			o.BF16(y, x[k:], d)
		}
	}
}
