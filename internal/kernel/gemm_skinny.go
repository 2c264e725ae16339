package kernel

import (
	"sync"
	"unsafe"
)

// skinnyJob is a running product of few rows: C is skinny by n, the rows of A are copied to x one after the
// other, and B is read once.
type skinnyJob struct {
	gemmProduct
	ks    *gemmKernels
	cCol  int // stride between columns of C: 1, unless the product was transposed
	x     *gemmBuffer
	ldx   int
	chunk int // columns of a task
	task  func(int)
}

var skinnyJobs = sync.Pool{New: func() any {
	j := new(skinnyJob)
	j.task = j.compute
	return j
}}

func runSkinny(pr *gemmProduct, ks *gemmKernels, p *Pool) {
	j := skinnyJobs.Get().(*skinnyJob)
	j.gemmProduct, j.ks, j.cCol = *pr, ks, 1
	if pr.n < pr.m { // Cᵀ = BᵀAᵀ
		j.m, j.n = pr.n, pr.m
		j.a, j.b = pr.b.transposed(), pr.a.transposed()
		j.ldc, j.cCol = 1, pr.ldc
	}
	j.ldx = ceilDiv(j.k, axpyRows) * axpyRows
	j.x = newGemmBuffer(j.m * j.ldx * ks.size)
	j.copyRows()
	j.chunk = j.chunkSize(p.Threads())
	tasks := ceilDiv(j.n, j.chunk)
	if p.Threads() == 1 {
		for t := range tasks {
			j.compute(t)
		}
	} else {
		p.Run(tasks, j.task)
	}
	j.x.free()
	j.gemmProduct, j.x = gemmProduct{}, nil
	skinnyJobs.Put(j)
}

// chunkSize returns the columns of a task. For axpy the sums must fit the L1 cache; for dot they are whole
// rows of B.
func (j *skinnyJob) chunkSize(threads int) int {
	size := ceilDiv(j.n, 4*threads)
	if j.dots() {
		return min(max(ceilDiv(size, dotRows)*dotRows, dotRows), skinnyChunk)
	}
	return min(max(ceilDiv(size, 64)*64, 128), skinnyChunk)
}

// skinnyChunk is the most columns of a task, and skinnyTerms the most terms of a dot product at a
// time.
const (
	skinnyChunk = 1024
	skinnyTerms = 2048
)

// dots reports whether a column of B is contiguous.
func (j *skinnyJob) dots() bool { return j.b.col != 1 }

// copyRows fills x with the rows of A, each followed by zeros up to ldx.
func (j *skinnyJob) copyRows() {
	ks := j.ks
	for i := range j.m {
		row, src := j.xAt(i, 0), j.a.at(i, 0)
		if j.a.col == 1 {
			ks.packAcross[j.a.format](row, src, 0, j.k, 1, j.ldx)
			continue
		}
		ks.packAcross[j.a.format](row, src, j.a.col, 1, j.k, 1)
		clear(unsafe.Slice((*byte)(j.xAt(i, j.k)), (j.ldx-j.k)*ks.size))
	}
}

// compute computes the columns of a task into scratch and writes them to C.
func (j *skinnyJob) compute(t int) {
	col := t * j.chunk
	cols := min(j.chunk, j.n-col)
	y := newGemmBuffer(j.m * (skinnyChunk + dotRows) * j.ks.size)
	for i := range j.m {
		clear(unsafe.Slice((*byte)(j.yAt(y.ptr, i, 0)), (cols+dotRows)*j.ks.size))
	}
	if j.dots() {
		j.dotColumns(y.ptr, col, cols)
	} else {
		j.axpyColumns(y.ptr, col, cols)
	}
	if j.ks.size == 4 {
		storeColumns[float32](j, y.ptr, col, cols)
	} else {
		storeColumns[float64](j, y.ptr, col, cols)
	}
	y.free()
}

// storeColumns writes the sums of a task to C.
func storeColumns[T Float](j *skinnyJob, y unsafe.Pointer, col, cols int) {
	scale := scaleOf[T](j.alpha)
	for i := range j.m {
		sums := unsafe.Slice((*T)(j.yAt(y, i, 0)), cols)
		first := unsafe.Add(j.c, (i*j.ldc+col*j.cCol)*j.ks.size)
		c := unsafe.Slice((*T)(first), (cols-1)*j.cCol+1)
		if j.update == Accumulate {
			for s, v := range sums {
				c[s*j.cCol] += scale * v
			}
			continue
		}
		for s, v := range sums {
			c[s*j.cCol] = scale * v
		}
	}
}

func (j *skinnyJob) yAt(y unsafe.Pointer, i, c int) unsafe.Pointer {
	return unsafe.Add(y, (i*(skinnyChunk+dotRows)+c)*j.ks.size)
}

func (j *skinnyJob) xAt(i, p int) unsafe.Pointer {
	return unsafe.Add(j.x.ptr, (i*j.ldx+p)*j.ks.size)
}

// axpyColumns sums the rows of B, axpyRows at a time; for the rows of A after the first these are in the L1
// cache.
func (j *skinnyJob) axpyColumns(y unsafe.Pointer, col, cols int) {
	ks := j.ks
	wide := newGemmBuffer(axpyRows * cols * ks.size)
	for p := 0; p < j.k; p += axpyRows {
		b, ldb := j.b.at(p, col), j.b.row
		if rows := min(axpyRows, j.k-p); rows < axpyRows || j.b.format != formatNative {
			j.widen(wide, b, ldb, cols, rows, axpyRows)
			b, ldb = wide.ptr, cols
		}
		for i := range j.m {
			ks.axpy(cols, j.yAt(y, i, 0), j.xAt(i, p), b, ldb)
		}
	}
	wide.free()
}

// dotColumns computes the dot products of the rows of A and columns of B.
func (j *skinnyJob) dotColumns(y unsafe.Pointer, col, cols int) {
	ks, terms := j.ks, min(j.k, skinnyTerms)
	wide := newGemmBuffer(dotRows * terms * ks.size)
	for c := 0; c < cols; c += dotRows {
		for p := 0; p < j.k; p += terms {
			k, b, ldb := min(terms, j.k-p), j.b.at(p, col+c), j.b.col
			if rows := min(dotRows, cols-c); rows < dotRows || j.b.format != formatNative {
				j.widen(wide, b, ldb, k, rows, dotRows)
				b, ldb = wide.ptr, k
			}
			for i := range j.m {
				ks.dot(k, j.yAt(y, i, c), j.xAt(i, p), b, ldb)
			}
		}
	}
	wide.free()
}

// widen copies rows of n elements of B to dst, and zeros up to total rows.
func (j *skinnyJob) widen(dst *gemmBuffer, src unsafe.Pointer, ld, n, rows, total int) {
	j.ks.packAcross[j.b.format](dst.ptr, src, ld, n, rows, n)
	tail := unsafe.Add(dst.ptr, rows*n*j.ks.size)
	clear(unsafe.Slice((*byte)(tail), (total-rows)*n*j.ks.size))
}
