package kernel

import (
	"math/bits"
	"sync"
	"unsafe"
)

// gemmFormat is the format of an operand's elements: that of the computation, or one of the 16-bit
// formats.
type gemmFormat uint8

const (
	formatNative gemmFormat = iota
	formatBF16
	formatF16
	formatCount
)

// gemmView is a strided operand: element (i, j) is i·row + j·col elements of size bytes after ptr, and row or
// col is 1.
type gemmView struct {
	ptr      unsafe.Pointer
	row, col int
	size     int
	format   gemmFormat
}

func (v gemmView) transposed() gemmView {
	v.row, v.col = v.col, v.row
	return v
}

func (v *gemmView) at(i, j int) unsafe.Pointer {
	return unsafe.Add(v.ptr, (i*v.row+j*v.col)*v.size)
}

// The kernels below take pointers and sizes without checks. Strides are in
// elements. An alpha holds the bits of a float32 or float64.
type (
	// gemmTile computes a tile of C from packed panels: a holds k columns of mr
	// elements and b holds k rows of nr. Only rows by cols elements are written.
	// It prefetches nextBytes·k bytes from next, and keeps the sums of earlier
	// chains at totals, a tile of aligned memory; see sumChain.
	gemmTile func(k int, a, b, c, next, totals unsafe.Pointer, ldc, rows, cols int, alpha uint64, update Update)
	// gemmStrip computes m rows of up to stripWide columns of C without
	// packing: element (i, p) of A is at i·row + p·col, row p of B at p·ldb.
	gemmStrip func(m, k int, a unsafe.Pointer, row, col int, b unsafe.Pointer, ldb int,
		c unsafe.Pointer, ldc, cols int, alpha uint64, update Update)
	// gemmAxpy adds to y[0:n] the sum over axpyRows rows of b, weighted by x.
	gemmAxpy func(n int, y, x, b unsafe.Pointer, ldb int)
	// gemmDot adds to y[0:dotRows] the dot products of x[0:k] and rows of b.
	gemmDot func(k int, y, x, b unsafe.Pointer, ldb int)
	// gemmPack writes k rows of width elements to dst without gaps, from count
	// <= width source elements each, widened; the rest of a row is zero.
	gemmPack func(dst, src unsafe.Pointer, ld, count, k, width int)
	// gemmSpread packs several neighbouring panels of full width, stride
	// elements apart, from a source whose k index strides by ld.
	gemmSpread func(dst, src unsafe.Pointer, ld, k, panels, stride int)
)

// axpyRows and dotRows are the rows of B that one call of a gemmAxpy and of a gemmDot
// process.
const (
	axpyRows = 8
	dotRows  = 4
)

// nextBytes is the bytes that a gemmTile prefetches for each term.
const nextBytes = 16

// gemmKernels is the kernels of a product for one element type and instruction
// set.
type gemmKernels struct {
	size       int // bytes in an element
	mr, nr     int // tile of C held in registers
	mc, kc, nc int // block of A for the L2 cache is mc by kc; of B, kc by nc
	stripTerms int // terms that a strip adds one after another; see sumChain
	stripCols  int // columns of a strip of many, 0 without strip kernels
	stripWide  int // widest strip of a product with a small matrix
	stripRows  int // most rows for which strips are faster than tiles

	tile  gemmTile
	strip gemmStrip
	axpy  gemmAxpy
	dot   gemmDot
	// packAcross is for sources whose k index is strided; packAlong for those whose k index is contiguous, which
	// it transposes.
	packAcross, packAlong [formatCount]gemmPack
	// spreadA and spreadB, for panels of mr and nr, may be absent.
	spreadA, spreadB [formatCount]gemmSpread
}

// sumChain is the most terms of a float32 sum that are added sequentially; the sums of these
// chains are then added. The error of a sum grows with the length of its chains, and Adam
// magnifies it: however small a gradient is, its sign decides the direction of the update. In the
// gradients of a small transformer chains of 64 have a third less error than one chain of a few
// hundred.
const sumChain = 64

// gemmSet is the kernels for one instruction set.
type gemmSet struct {
	name     string
	f32, f64 gemmKernels
}

// gemmSets lists the sets that this processor can run, the best first and plain Go
// last.
var gemmSets = append(gemmAsmSets(), gemmSet{"plain", plainKernels[float32](), plainKernels[float64]()})

func kernelsOf[T Float](set *gemmSet) *gemmKernels {
	if unsafe.Sizeof(*new(T)) == 4 {
		return &set.f32
	}
	return &set.f64
}

// gemmPanels describes what to pack: rows p to p+k and panels lo to hi, of width columns each, of a view with
// n columns in all.
type gemmPanels struct{ p, k, lo, hi, width, n int }

// spreadPanels is the number of panels packed at once: enough to read the source in long runs, which the
// hardware prefetches.
const spreadPanels = 32

// panelStride returns the elements from one panel to the next. The line between
// them keeps panels, whose size is often a power of two, from colliding in the
// cache when several are written at once.
func (ks *gemmKernels) panelStride(width, k int) int {
	line := cacheLine / ks.size
	return (ceilDiv(width*k, line) + 1) * line
}

// packPanels writes panels of v to dst one after the other.
func (ks *gemmKernels) packPanels(dst unsafe.Pointer, v *gemmView, spread gemmSpread, g gemmPanels) {
	step := ks.panelStride(g.width, g.k)
	for q := g.lo; q < g.hi; {
		at := unsafe.Add(dst, (q-g.lo)*step*ks.size)
		full := min(g.hi, g.n/g.width, q+spreadPanels) - q
		if v.col != 1 || spread == nil || full < 2 {
			ks.pack(at, v, g.p, q*g.width, g.k, g.n, g.width)
			q++
			continue
		}
		spread(at, v.at(g.p, q*g.width), v.row, g.k, full, step)
		q += full
	}
}

// pack writes the k by width panel at row p and column j of v to dst, where v
// has n columns in all.
func (ks *gemmKernels) pack(dst unsafe.Pointer, v *gemmView, p, j, k, n, width int) {
	count := min(width, n-j)
	if v.col == 1 {
		ks.packAcross[v.format](dst, v.at(p, j), v.row, count, k, width)
		return
	}
	ks.packAlong[v.format](dst, v.at(p, j), v.col, count, k, width)
}

// gemmBuffer is scratch memory aligned to a cache line.
type gemmBuffer struct {
	ptr   unsafe.Pointer
	class int
}

// gemmBuffers holds free buffers by the logarithm of their size. All products share them,
// because allocation clears memory, which for large buffers takes longer than many
// products.
var gemmBuffers [48]sync.Pool

const cacheLine = 64

func newGemmBuffer(bytes int) *gemmBuffer {
	class := max(bits.Len(uint(bytes+cacheLine-1)), 12)
	if b, ok := gemmBuffers[class].Get().(*gemmBuffer); ok {
		return b
	}
	mem := make([]byte, 1<<class+cacheLine)
	ptr := unsafe.Pointer(unsafe.SliceData(mem))
	pad := -uintptr(ptr) & (cacheLine - 1)
	return &gemmBuffer{unsafe.Add(ptr, pad), class}
}

func (b *gemmBuffer) free() { gemmBuffers[b.class].Put(b) }
