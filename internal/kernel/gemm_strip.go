package kernel

import "sync"

// stripJob is a product in progress without packing of A: each task computes
// some rows of a strip of columns, straight from B where its rows are usable.
type stripJob struct {
	gemmProduct
	ks         *gemmKernels
	rows, sets int // rows to a task, and tasks to a strip
	task       func(int)
}

// stripTaskRows bounds the rows of a task, and with them the time for which a
// kernel cannot be preempted.
const stripTaskRows = 128

var stripJobs = sync.Pool{New: func() any {
	j := new(stripJob)
	j.task = j.compute
	return j
}}

func runStrips(pr *gemmProduct, ks *gemmKernels, p *Pool) {
	rows := blockSize(pr.m, stripTaskRows, stripPass)
	sets := ceilDiv(pr.m, rows)
	tasks := sets * ceilDiv(pr.n, ks.stripCols)
	if p.Threads() == 1 {
		j := stripJob{gemmProduct: *pr, ks: ks, rows: rows, sets: sets}
		for t := range tasks {
			j.compute(t)
		}
		return
	}
	j := stripJobs.Get().(*stripJob)
	j.gemmProduct, j.ks, j.rows, j.sets = *pr, ks, rows, sets
	p.Run(tasks, j.task)
	j.gemmProduct = gemmProduct{}
	stripJobs.Put(j)
}

// stripPass is how many rows a strip kernel takes at a time, and
// stripResident how many bytes of B stay in the cache from one to the next.
const (
	stripPass     = 8
	stripResident = 1 << 20
)

// direct says whether m rows are to be computed from B in place: rows of B that
// are usable as they are, and either read once or close to each other.
func (j *stripJob) direct(m int) bool {
	return j.b.format == formatNative && j.b.col == 1 &&
		(m <= stripPass || j.k*j.b.row*j.ks.size <= stripResident)
}

func (j *stripJob) compute(t int) {
	ks := j.ks
	i, col := t%j.sets*j.rows, t/j.sets*ks.stripCols
	m, cols := min(j.rows, j.m-i), min(ks.stripCols, j.n-col)
	kc := blockSize(j.k, ks.stripTerms, 4)
	direct := j.direct(m)
	var buf *gemmBuffer
	if !direct {
		buf = newGemmBuffer(kc * ks.stripCols * ks.size)
		defer buf.free()
	}
	for p := 0; p < j.k; p += kc {
		k := min(kc, j.k-p)
		b, ldb := j.b.at(p, col), j.b.row
		if !direct {
			b, ldb = buf.ptr, ks.stripCols
			ks.pack(b, &j.b, p, col, k, j.n, ldb)
		}
		ks.strip(m, k, j.a.at(i, p), j.a.row, j.a.col, b, ldb,
			j.cAt(i, col, ks.size), j.ldc, cols, j.alpha, j.updateAt(p))
	}
}
