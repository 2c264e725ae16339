package kernel

import (
	"sync"
	"unsafe"
)

// stripJob is a running product without packing of A: each task computes some rows of a strip of columns, and
// reads B in place if its layout allows.
type stripJob struct {
	gemmProduct
	ks         *gemmKernels
	rows, sets int // rows of a task, and tasks for a strip
	width      int // columns of a strip
	task       func(int)
}

// stripTaskRows bounds the rows of a task, and so the time during which a kernel cannot be
// preempted.
const stripTaskRows = 128

var stripJobs = sync.Pool{New: func() any {
	j := new(stripJob)
	j.task = j.compute
	return j
}}

func runStrips(pr *gemmProduct, ks *gemmKernels, p *Pool) {
	rows := blockSize(pr.m, stripTaskRows, stripPass)
	sets, width := ceilDiv(pr.m, rows), pr.stripWidth(ks)
	tasks := sets * ceilDiv(pr.n, width)
	if pr.startsWithBias(ks) {
		defer func() { pr.bias = nil }()
	}
	if p.Threads() == 1 {
		j := stripJob{gemmProduct: *pr, ks: ks, rows: rows, sets: sets, width: width}
		for t := range tasks {
			j.compute(t)
		}
		return
	}
	j := stripJobs.Get().(*stripJob)
	j.gemmProduct, j.ks, j.rows, j.sets, j.width = *pr, ks, rows, sets, width
	p.Run(tasks, j.task)
	j.gemmProduct = gemmProduct{}
	stripJobs.Put(j)
}

// stripWidth returns the columns of a strip: as many as a kernel supports for a small matrix, in equal
// multiples of half vectors.
func (pr *gemmProduct) stripWidth(ks *gemmKernels) int {
	if !narrow(pr.m, pr.n, pr.k) || pr.n <= ks.stripCols || ks.stripWide == ks.stripCols {
		return ks.stripCols
	}
	return blockSize(pr.n, ks.stripWide, ks.stripWide/8)
}

// startsWithBias reports whether C can be initialized with the bias and the sums added to it: the result is
// the same if the sums are one chain.
func (pr *gemmProduct) startsWithBias(ks *gemmKernels) bool {
	return pr.bias != nil && pr.update == Overwrite && pr.k <= ks.stripTerms && pr.alpha == ks.one()
}

// one returns the bits of the scale 1.
func (ks *gemmKernels) one() uint64 {
	if ks.size == 4 {
		return scaleBits[float32](1)
	}
	return scaleBits[float64](1)
}

// fillBias writes the bias to m rows of a strip.
func (j *stripJob) fillBias(i, m, col, cols int) {
	size := j.ks.size
	bias := unsafe.Slice((*byte)(unsafe.Add(j.bias, col*size)), cols*size)
	if cols == j.ldc { // rows without gaps: copy the part that is already filled
		all := unsafe.Slice((*byte)(j.cAt(i, 0, size)), m*cols*size)
		for n := copy(all, bias); n < len(all); {
			n += copy(all[n:], all[:n])
		}
		return
	}
	for r := i; r < i+m; r++ {
		copy(unsafe.Slice((*byte)(j.cAt(r, col, size)), cols*size), bias)
	}
}

// stripPass is the rows that a strip kernel processes at a time, and stripResident the bytes of B that stay
// in the cache between passes.
const (
	stripPass     = 8
	stripResident = 1 << 20
)

// direct reports whether m rows are computed from B in place: its rows must be usable as stored, and either
// read once or close to each other.
func (j *stripJob) direct(m int) bool {
	return j.b.format == formatNative && j.b.col == 1 &&
		(m <= stripPass || j.k*j.b.row*j.ks.size <= stripResident)
}

func (j *stripJob) compute(t int) {
	ks := j.ks
	i, col := t%j.sets*j.rows, t/j.sets*j.width
	m, cols := min(j.rows, j.m-i), min(j.width, j.n-col)
	kc := blockSize(j.k, ks.stripTerms, 4)
	direct := j.direct(m)
	var buf *gemmBuffer
	if !direct {
		buf = newGemmBuffer(kc * j.width * ks.size)
		defer buf.free()
	}
	update := j.update
	if j.startsWithBias(ks) {
		j.fillBias(i, m, col, cols)
		update = Accumulate
	}
	for p := 0; p < j.k; p += kc {
		k := min(kc, j.k-p)
		b, ldb := j.b.at(p, col), j.b.row
		if !direct {
			b, ldb = buf.ptr, j.width
			ks.pack(b, &j.b, p, col, k, j.n, ldb)
		}
		ks.strip(m, k, j.a.at(i, p), j.a.row, j.a.col, b, ldb,
			j.cAt(i, col, ks.size), j.ldc, cols, j.alpha, update)
		update = Accumulate
	}
}
