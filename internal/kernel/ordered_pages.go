package kernel

import "fmt"

// The products of attention: keys and values are in pages, matrices of equal size at several places of one
// slice. Sums are those of an Ordered product with each page, in the order of pages.

// AcrossPages is how many pages a kernel multiplies by at once: for few rows that takes no longer than one.
const AcrossPages = 4

// acrossFunc computes up to orderedRows rows of AcrossPages pages, alongFunc up to orderedRows rows of 64
// columns.
type (
	acrossFunc[W orderedWeight] func(k int, y *float32, ldy int, x *float32, ldx int, w *W, at *int)
	alongFunc[W orderedWeight]  func(pages, k int, y *float32, ldy int, x *float32, ldx int, w *W, at *int,
		ldw int)
)

// Across is the product with pages side by side: Cols columns of y for each page, which begins at an element
// of w that at lists.
func Across[W orderedWeight](o Ordered, y, x []float32, w []W, at []int) {
	across(o, orderedOf[W](&orderedSets[0]), y, x, w, at)
}

func across[W orderedWeight](o Ordered, set *orderedKernels[W], y, x []float32, w []W, at []int) {
	o.checkPages(len(w), at)
	if o.Rows == 0 || o.K == 0 {
		return
	}
	whole := 0
	if set.across[0] != nil && o.Cols == OrderedLanes && o.LDW == OrderedLanes {
		whole = len(at) / AcrossPages * AcrossPages
	}
	one := o
	one.Cols = len(at) * o.Cols
	one.checkRows(len(y), len(x))
	for p := 0; p < whole; p += AcrossPages {
		for i := 0; i < o.Rows; i += orderedRows {
			f := set.across[min(orderedRows, o.Rows-i)-1]
			f(o.K, &y[i*o.LDY+p*o.Cols], o.LDY, &x[i*o.LDX], o.LDX, &w[0], &at[p])
		}
	}
	for p := whole; p < len(at); p++ {
		runOrdered(o, set, y[p*o.Cols:], x, w[at[p]:])
	}
}

// Along is the product with pages one below the other: K terms of each.
func Along[W orderedWeight](o Ordered, y, x []float32, w []W, at []int) {
	along(o, orderedOf[W](&orderedSets[0]), y, x, w, at)
}

func along[W orderedWeight](o Ordered, set *orderedKernels[W], y, x []float32, w []W, at []int) {
	o.checkPages(len(w), at)
	if o.Rows == 0 || o.K == 0 || len(at) == 0 {
		return
	}
	one := o
	one.K = len(at) * o.K
	one.checkRows(len(y), len(x))
	whole := 0
	if set.along[0] != nil {
		whole = o.Cols / 64 * 64
	}
	for col := 0; col < whole; col += 64 {
		for i := 0; i < o.Rows; i += orderedRows {
			f := set.along[min(orderedRows, o.Rows-i)-1]
			f(len(at), o.K, &y[i*o.LDY+col], o.LDY, &x[i*o.LDX], o.LDX, &w[col], &at[0], o.LDW)
		}
	}
	if o.Cols -= whole; o.Cols == 0 {
		return
	}
	for p, first := range at {
		runOrdered(o, set, y[whole:], x[p*o.K:], w[first+whole:])
	}
}

// checkPages panics unless every page is inside of n elements.
func (o Ordered) checkPages(n int, at []int) {
	for _, first := range at {
		if first < 0 || o.Cols <= 0 || o.Cols%OrderedLanes != 0 || first+(o.K-1)*o.LDW+o.Cols > n {
			panic(fmt.Sprintf("kernel: ordered product %+v: a page at %d does not fit %d elements", o, first, n))
		}
	}
}

// checkRows panics unless the rows of y and x are inside of so many elements.
func (o Ordered) checkRows(y, x int) {
	if (o.Rows-1)*o.LDY+o.Cols > y || (o.Rows-1)*o.LDX+o.K > x {
		panic(fmt.Sprintf("kernel: ordered product %+v does not fit %d and %d elements", o, y, x))
	}
}
