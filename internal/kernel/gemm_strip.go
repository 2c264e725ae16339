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
	j := stripJobs.Get().(*stripJob)
	j.gemmProduct, j.ks = *pr, ks
	j.rows = blockSize(pr.m, stripTaskRows, 8)
	j.sets = ceilDiv(pr.m, j.rows)
	tasks := j.sets * ceilDiv(pr.n, ks.stripCols)
	if p.Threads() == 1 {
		for t := range tasks {
			j.compute(t)
		}
	} else {
		p.Run(tasks, j.task)
	}
	j.gemmProduct = gemmProduct{}
	stripJobs.Put(j)
}

func (j *stripJob) compute(t int) {
	ks := j.ks
	i, col := t%j.sets*j.rows, t/j.sets*ks.stripCols
	m, cols := min(j.rows, j.m-i), min(ks.stripCols, j.n-col)
	kc := blockSize(j.k, ks.kc, 4)
	direct := j.b.format == formatNative && j.b.col == 1
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
