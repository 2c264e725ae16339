package array

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Shape is the size of each dim, outermost first. A nil Shape is a scalar's.
type Shape []int

// Len returns the number of elements: the product of the dims, 1 for a scalar.
func (s Shape) Len() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// maxLen is the most elements that a shape may have: their bytes fit an int, whatever the dtype.
const maxLen = math.MaxInt / 16

// Valid reports whether every dim is non-negative and the product of the dims, those of size 0 left out, is
// small enough that no number of elements, stride or number of bytes of such an array overflows.
func (s Shape) Valid() bool {
	n := uint64(1)
	for _, d := range s {
		if d < 0 {
			return false
		}
		high, low := bits.Mul64(n, uint64(max(d, 1)))
		if high != 0 || low > maxLen {
			return false
		}
		n = low
	}
	return true
}

// Equal reports whether s and t have the same dims.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// Clone copies s, so that the copy can be changed.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// Strides returns the distance in elements between neighbours along each dim of a contiguous array.
func (s Shape) Strides() []int {
	strides := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		strides[i] = n
		n *= s[i]
	}
	return strides
}

// String prints the dims as [2,3]; a scalar is [].
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}
