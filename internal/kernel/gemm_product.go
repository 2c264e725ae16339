package kernel

import "unsafe"

// gemmProduct is a Gemm without its types: c = alpha·a·b, or c plus that.
type gemmProduct struct {
	m, n, k int
	a, b    gemmView
	c       unsafe.Pointer
	ldc     int
	alpha   uint64
	update  Update
	bias    unsafe.Pointer // nil for none
}

// The limits between the ways to compute a product, in elements of M, or of N
// where that is the smaller, and in multiplications.
const (
	// skinnyRows is up to where a product does so little with each element of
	// its large operand that reading it is all that counts.
	skinnyRows = 4
	// stripWork is up to where preparing anything costs more than it saves.
	stripWork = 48 * 48 * 48
	// smallSide is the longest side of a matrix that all rows are multiplied by,
	// or that is a sum over rows, which stays in the L1 cache.
	smallSide = 64
	// parallelWork is from where threads gain more than their wake-up costs.
	parallelWork = 1 << 20
)

// parallel reports whether the product is worth sharing between threads.
func (pr *gemmProduct) parallel(p *Pool) bool {
	return p.Threads() > 1 && pr.work() >= parallelWork
}

func (pr *gemmProduct) work() int { return pr.m * pr.n * pr.k }

// run computes the product by the way that suits its shape. Threads do not
// enter the choice, because the ways differ in the order of their sums.
func (pr *gemmProduct) run(ks *gemmKernels, p *Pool) {
	if pr.k == 0 {
		pr.scaleOnly(ks)
		pr.addBias(ks, 0, pr.m, 0, pr.n)
		return
	}
	if !pr.parallel(p) {
		p = nil
	}
	strips := ks.strip != nil && pr.a.format == formatNative
	small := pr.work() <= stripWork // these all sum in one order, however many rows there are
	switch {
	case strips && small:
		runStrips(pr, ks, p)
	case !small && (pr.m <= skinnyRows || pr.n <= skinnyRows):
		runSkinny(pr, ks, p)
	case strips && (pr.m <= ks.stripRows || pr.n <= ks.stripCols || pr.narrow() && pr.k <= smallSide):
		runStrips(pr, ks, p)
	default:
		runPacked(pr, ks, p)
		return // with the bias, while the rows are in the cache
	}
	pr.addBias(ks, 0, pr.m, 0, pr.n)
}

// narrow reports whether one side of the product is a small matrix.
func (pr *gemmProduct) narrow() bool {
	return pr.n <= smallSide && (pr.k <= smallSide || pr.m <= smallSide)
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

// scaleOnly is the product of no terms.
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

// updateAt returns how the block of terms that begins at p enters C.
func (pr *gemmProduct) updateAt(p int) Update {
	if p > 0 {
		return Accumulate
	}
	return pr.update
}

// blockSize returns the length of equal blocks, but for the last, that split n
// in as few as blocks of limit would; it is a multiple of unit.
func blockSize(n, limit, unit int) int {
	blocks := max(1, ceilDiv(n, limit))
	return ceilDiv(ceilDiv(n, blocks), unit) * unit
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
