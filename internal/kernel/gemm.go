package kernel

import (
	"fmt"
	"math"
	"unsafe"
)

// Trans selects whether a stored matrix is transposed in a product.
type Trans uint8

// The values of Trans: as stored, or transposed.
const (
	NoTrans Trans = iota
	Transpose
)

// Update selects whether an operation overwrites its destination or adds to it.
type Update uint8

// The values of Update: overwrite the destination, or add to it.
const (
	Overwrite Update = iota
	Accumulate
)

// Operand is an input of a product that computes in T: a row-major matrix, of elements T or of a narrower
// format that is widened on the fly.
type Operand[T Float] struct {
	ptr    unsafe.Pointer
	len    int
	ld     int
	trans  Trans
	format gemmFormat
}

// Dense returns the operand stored in data with ld elements from one row to
// the next; ld 0 means rows without gaps.
func Dense[T Float](data []T, ld int, trans Trans) Operand[T] {
	return Operand[T]{unsafe.Pointer(unsafe.SliceData(data)), len(data), ld, trans, formatNative}
}

// DenseBF16 is like Dense for bfloat16 elements.
func DenseBF16(data []uint16, ld int, trans Trans) Operand[float32] {
	return Operand[float32]{unsafe.Pointer(unsafe.SliceData(data)), len(data), ld, trans, formatBF16}
}

// DenseF16 is like Dense for IEEE half elements.
func DenseF16(data []uint16, ld int, trans Trans) Operand[float32] {
	return Operand[float32]{unsafe.Pointer(unsafe.SliceData(data)), len(data), ld, trans, formatF16}
}

// Gemm is the matrix product C = Alpha·op(A)·op(B), where op(A) is M by K,
// op(B) is K by N and C is M by N. The order in which an element of C is summed
// depends on the sizes only, never on the number of threads.
type Gemm[T Float] struct {
	M, N, K int
	A, B    Operand[T]
	// C is row-major with LDC elements from one row to the next; LDC 0 means N.
	C   []T
	LDC int
	// Alpha scales the product; 0 means 1.
	Alpha T
	// Update selects whether the product overwrites C or is added to it.
	Update Update
	// Bias, if not nil, is N elements that are added to every row of C at the
	// end.
	Bias []T
	// Zeros indicates that rows of A may begin or end with zeros, as with a causal mask: their terms are skipped
	// if that provably does not change any bit of C.
	Zeros bool
}

// Run computes the product on p, which may be nil. It panics when the sizes do
// not fit the slices.
func (g Gemm[T]) Run(p *Pool) { g.runOn(&gemmSets[0], p) }

// runOn is like Run with a given set of kernels.
func (g Gemm[T]) runOn(set *gemmSet, p *Pool) {
	if g.M == 0 || g.N == 0 {
		return
	}
	ks := kernelsOf[T](set)
	pr := g.product(ks.size)
	g.check(pr.ldc, [3]int{})
	pr.run(ks, p)
}

// product returns g without type parameters, for elements of the given size.
func (g *Gemm[T]) product(size int) gemmProduct {
	ldc := g.LDC
	if ldc == 0 {
		ldc = g.N
	}
	return gemmProduct{
		m: g.M, n: g.N, k: g.K,
		a: g.A.view(g.M, g.K, size), b: g.B.view(g.K, g.N, size),
		c: unsafe.Pointer(unsafe.SliceData(g.C)), ldc: ldc,
		alpha: scaleBits(g.Alpha), update: g.Update, bias: unsafe.Pointer(unsafe.SliceData(g.Bias)),
		zeros: g.Zeros,
	}
}

// scaleBits returns the bits of alpha, or of 1 when alpha is 0.
func scaleBits[T Float](alpha T) uint64 {
	if alpha == 0 {
		alpha = 1
	}
	if unsafe.Sizeof(alpha) == 4 {
		return uint64(math.Float32bits(float32(alpha)))
	}
	return math.Float64bits(float64(alpha))
}

// check panics unless the product's matrices, at the given offsets in the slices of A, B and C, are inside
// them: the kernels below have no bounds checks.
func (g *Gemm[T]) check(ldc int, at [3]int) {
	if g.M < 0 || g.N < 0 || g.K < 0 {
		panic(fmt.Sprintf("kernel: gemm of negative size %d×%d×%d", g.M, g.N, g.K))
	}
	g.A.check("A", g.M, g.K, at[0])
	g.B.check("B", g.K, g.N, at[1])
	checkExtent("C", g.M, g.N, ldc, len(g.C), at[2])
	if g.Bias != nil && len(g.Bias) != g.N {
		panic(fmt.Sprintf("kernel: gemm of %d columns with a bias of %d", g.N, len(g.Bias)))
	}
}

// check panics unless the operand holds a matrix whose op is rows by cols.
func (o *Operand[T]) check(name string, rows, cols, offset int) {
	if o.trans == Transpose {
		rows, cols = cols, rows
	}
	ld := o.ld
	if ld == 0 {
		ld = cols
	}
	checkExtent(name, rows, cols, ld, o.len, offset)
}

func checkExtent(name string, rows, cols, ld, length, offset int) {
	if rows == 0 || cols == 0 {
		return
	}
	if ld < cols || offset < 0 || offset+(rows-1)*ld+cols > length {
		panic(fmt.Sprintf("kernel: gemm operand %s of %d×%d with stride %d does not fit %d elements",
			name, rows, cols, ld, length-offset))
	}
}

// view returns the operand, whose op is rows by cols, as a strided view.
func (o *Operand[T]) view(rows, cols, size int) gemmView {
	if o.format != formatNative {
		size = 2
	}
	v := gemmView{ptr: o.ptr, row: o.ld, col: 1, size: size, format: o.format}
	if o.trans == Transpose {
		if o.ld == 0 {
			v.row = rows
		}
		return v.transposed()
	}
	if o.ld == 0 {
		v.row = cols
	}
	return v
}
