package kernel

import (
	"math"
	"unsafe"
)

// Products in which rows of A begin or end with zeros, as attention weights under a causal mask do. The
// product of zero and a finite number is a zero of either sign, and adding it changes only a sum that is -0.
// So B must be finite, and a tile with a -0 in its result is computed again with all terms.

// termRange is a range of the terms of a panel of A.
type termRange struct{ lo, hi int }

// mayTrim reports whether the product is one block of terms, so that the trimmed sums have the same chains as
// the whole ones.
func (j *packedJob) mayTrim(kc int) bool {
	return j.k <= kc && j.update == Overwrite && j.alpha == j.ks.one() && j.ks.size == 4
}

// finiteB reports whether the packed block of B is finite. A square that overflows counts as infinite.
func (j *packedJob) finiteB() bool {
	var sum float32
	for q := range ceilDiv(j.nb, j.ks.nr) {
		sum += SumSquares(unsafe.Slice((*float32)(j.panelB(q)), j.ks.nr*j.kb))
	}
	return !math.IsInf(float64(sum), 0) && !math.IsNaN(float64(sum))
}

// spans returns the terms of each panel of rows that are not all zero: from the beginning of a chain to the
// end of an iteration of the tile's loop. It returns nil if these are all terms.
func (j *packedJob) spans(a unsafe.Pointer, rows rowPanels) []termRange {
	const turn = 4
	step, trimmed := j.ks.panelStride(j.ks.mr, j.kb)*j.ks.size, false
	terms := make([]termRange, 0, rows.hi-rows.lo)
	for range rows.hi - rows.lo {
		panel := unsafe.Slice((*uint32)(a), j.ks.mr*j.kb)
		lo := zeroRun(panel) / (j.ks.mr * sumChain) * sumChain
		hi := min(j.kb, ceilDiv(ceilDiv(len(panel)-zeroTail(panel), j.ks.mr), turn)*turn)
		if lo >= hi { // all are zero: one iteration writes them
			lo, hi = 0, min(j.kb, turn)
		}
		terms, trimmed = append(terms, termRange{lo, hi}), trimmed || hi-lo < j.kb
		a = unsafe.Add(a, step)
	}
	if !trimmed {
		return nil
	}
	return terms
}

// zeroRun returns the number of zeros of either sign at the beginning, and zeroTail at the end; runs shorter
// than eight may be missed.
func zeroRun(x []uint32) int {
	if len(x)&1 == 1 { // pairs would omit the first number
		x = x[:len(x)-1]
	}
	n := 0
	for w := pairs(x); len(w) >= 4 && (w[0]|w[1]|w[2]|w[3])&^signs == 0; w = w[4:] {
		n += 8
	}
	return n
}

func zeroTail(x []uint32) int {
	n := 0
	for w := pairs(x); len(w) >= 4; n += 8 {
		end := w[len(w)-4:]
		if (end[0]|end[1]|end[2]|end[3])&^signs != 0 {
			break
		}
		w = w[:len(w)-4]
	}
	return n
}

// signs is the sign bits of two numbers.
const signs = 1<<63 | 1<<31

// pairs returns numbers two at a time; the first one is omitted if their number is odd.
func pairs(x []uint32) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(x[len(x)&1:]))), len(x)/2)
}

// computeTrimmed is like computePanel, limited to the given terms of each panel of A.
func (j *packedJob) computeTrimmed(a, totals unsafe.Pointer, rows rowPanels, q int, terms []termRange) {
	ks := j.ks
	b, stepA := j.panelB(q), ks.panelStride(ks.mr, j.kb)*ks.size
	col := j.j + q*ks.nr
	cols := min(ks.nr, j.n-col)
	for r := rows.lo; r < rows.hi; r++ {
		i, t := r*ks.mr, terms[r-rows.lo]
		m, c := min(ks.mr, j.m-i), j.cAt(i, col, ks.size)
		ks.tile(t.hi-t.lo, unsafe.Add(a, t.lo*ks.mr*ks.size), unsafe.Add(b, t.lo*ks.nr*ks.size), c, b, totals,
			j.ldc, m, cols, j.alpha, Overwrite)
		if t.hi-t.lo < j.kb && j.negativeZero(c, m, cols) {
			ks.tile(j.kb, a, b, c, b, totals, j.ldc, m, cols, j.alpha, Overwrite)
		}
		a = unsafe.Add(a, stepA)
	}
}

// negativeZero reports whether a tile of C may contain -0, which has all bits but the sign zero.
func (j *packedJob) negativeZero(c unsafe.Pointer, rows, cols int) bool {
	const ones = 1<<32 | 1
	for i := range rows {
		row := unsafe.Slice((*uint32)(unsafe.Add(c, i*j.ldc*j.ks.size)), cols)
		if cols&1 == 1 && row[0] == 1<<31 {
			return true
		}
		found := uint64(0)
		for _, x := range pairs(row) {
			x ^= signs
			found |= (x - ones) &^ x & signs
		}
		if found != 0 {
			return true
		}
	}
	return false
}
