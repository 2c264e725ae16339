package kernel

import "unsafe"

// gemmProduct is a Gemm without type parameters: c = alpha·a·b, or c += that.
type gemmProduct struct {
	m, n, k int
	a, b    gemmView
	c       unsafe.Pointer
	ldc     int
	alpha   uint64
	update  Update
	bias    unsafe.Pointer // nil for none
	zeros   bool           // rows of a may begin or end with zeros
}

// Thresholds between the algorithms of a product, in elements of the smaller of M and N, and in
// multiplications.
const (
	// skinnyRows is the most rows for which a product is bound by reading its large
	// operand.
	skinnyRows = 4
	// stripWork is the most work for which packing costs more than it saves.
	stripWork = 48 * 48 * 48
	// smallSide is the longest side of a small matrix that stays in the L1 cache: a factor of all rows, or a sum
	// over rows.
	smallSide = 64
	// parallelWork is the least work for which threads gain more than waking them costs.
	parallelWork = 1 << 20
)

// parallel reports whether the product is worth sharing between threads.
func (pr *gemmProduct) parallel(p *Pool) bool {
	return p.Threads() > 1 && pr.work() >= parallelWork
}

func (pr *gemmProduct) work() int { return pr.m * pr.n * pr.k }

// run computes the product with the algorithm for its shape. The choice does not depend on the number of
// threads, because the algorithms sum in different orders.
func (pr *gemmProduct) run(ks *gemmKernels, p *Pool) {
	if pr.k == 0 {
		pr.scaleOnly(ks)
		pr.addBias(ks, 0, pr.m, 0, pr.n)
		return
	}
	if !pr.parallel(p) {
		p = nil
	}
	switch ks.way(pr.m, pr.n, pr.k, pr.a.format) {
	case wayStrips:
		runStrips(pr, ks, p)
	case waySkinny:
		runSkinny(pr, ks, p)
	default:
		runPacked(pr, ks, p)
		return // including the bias, while the rows are in the cache
	}
	pr.addBias(ks, 0, pr.m, 0, pr.n)
}

// gemmWay is an algorithm for products.
type gemmWay uint8

const (
	wayPacked gemmWay = iota
	wayStrips
	waySkinny
)

// way returns the algorithm for a shape.
func (ks *gemmKernels) way(m, n, k int, a gemmFormat) gemmWay {
	strips := ks.strip != nil && a == formatNative
	small := m*n*k <= stripWork // these all sum in the same order, for any number of rows
	switch {
	case strips && small:
		return wayStrips
	case !small && (m <= skinnyRows || n <= skinnyRows):
		return waySkinny
	case strips && (m <= ks.stripRows || n <= ks.stripCols || narrow(m, n, k) && k <= smallSide):
		return wayStrips
	}
	return wayPacked
}

// EvenSums reports whether the order of summation of a product is independent of its operands' layouts, and
// turned whether its transpose has the same order. Skinny products depend on the layout of the large operand;
// strips and tiles agree if k is a multiple of both chain lengths, within one block.
func EvenSums[T Float](m, n, k int) (even, turned bool) {
	ks := kernelsOf[T](&gemmSets[0])
	a, b := ks.way(m, n, k, formatNative), ks.way(n, m, k, formatNative)
	even = a != waySkinny
	return even, even && (a == b || k%ks.stripTerms == 0 && k <= ks.kc)
}

// narrow reports whether one side of the product is a small matrix.
func narrow(m, n, k int) bool {
	return n <= smallSide && (k <= smallSide || m <= smallSide)
}

// addBias adds the bias, if there is one, to part of C.
func (pr *gemmProduct) addBias(ks *gemmKernels, row, rows, col, cols int) {
	if pr.bias == nil {
		return
	}
	for i := row; i < row+rows; i++ {
		c, bias := pr.cAt(i, col, ks.size), unsafe.Add(pr.bias, col*ks.size)
		if ks.size == 4 {
			addTo[float32](c, bias, cols)
		} else {
			addTo[float64](c, bias, cols)
		}
	}
}

func addTo[T Float](dst, x unsafe.Pointer, n int) {
	d := unsafe.Slice((*T)(dst), n)
	Add(d, d, unsafe.Slice((*T)(x), n))
}

// scaleOnly computes the product for K = 0.
func (pr *gemmProduct) scaleOnly(ks *gemmKernels) {
	if pr.update == Accumulate {
		return
	}
	for i := range pr.m {
		clear(unsafe.Slice((*byte)(pr.cAt(i, 0, ks.size)), pr.n*ks.size))
	}
}

func (pr *gemmProduct) cAt(i, j, size int) unsafe.Pointer {
	return unsafe.Add(pr.c, (i*pr.ldc+j)*size)
}

// updateAt returns whether the block of terms that begins at p overwrites C or is added to it.
func (pr *gemmProduct) updateAt(p int) Update {
	if p > 0 {
		return Accumulate
	}
	return pr.update
}

// blockSize returns the size of equal blocks (the last may be smaller) that split n into as few as blocks of
// limit would; it is a multiple of unit.
func blockSize(n, limit, unit int) int {
	blocks := max(1, ceilDiv(n, limit))
	return ceilDiv(ceilDiv(n, blocks), unit) * unit
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
