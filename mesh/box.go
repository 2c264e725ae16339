package mesh

import (
	"slices"
	"strconv"
	"strings"
)

// Box is a rectangular part of a tensor: a start and a size for each dim.
type Box struct {
	Start, Size []int
}

// Len returns the number of elements in the box; 1 for a scalar.
func (b Box) Len() int {
	n := 1
	for _, k := range b.Size {
		n *= k
	}
	return n
}

// Empty reports whether the box has no elements.
func (b Box) Empty() bool { return slices.Contains(b.Size, 0) }

// Equal reports whether both boxes are equal.
func (b Box) Equal(o Box) bool { return slices.Equal(b.Start, o.Start) && slices.Equal(b.Size, o.Size) }

// Intersect returns the intersection of two boxes of one tensor, and whether it is not empty.
func (b Box) Intersect(o Box) (Box, bool) {
	c := Box{make([]int, len(b.Size)), make([]int, len(b.Size))}
	for d := range c.Size {
		c.Start[d] = max(b.Start[d], o.Start[d])
		c.Size[d] = min(b.Start[d]+b.Size[d], o.Start[d]+o.Size[d]) - c.Start[d]
		if c.Size[d] <= 0 {
			return Box{}, false
		}
	}
	return c, true
}

// Within returns the box relative to a box around it, as a device that holds outer addresses it.
func (b Box) Within(outer Box) Box {
	start := slices.Clone(b.Start)
	for d := range start {
		start[d] -= outer.Start[d]
	}
	return Box{start, slices.Clone(b.Size)}
}

// String returns the range of each dim: [0:2,3:5].
func (b Box) String() string {
	words := make([]string, len(b.Size))
	for d := range words {
		words[d] = strconv.Itoa(b.Start[d]) + ":" + strconv.Itoa(b.Start[d]+b.Size[d])
	}
	return "[" + strings.Join(words, ",") + "]"
}

// Range is a contiguous part of one dim or factor.
type Range struct {
	Start, Size int
}

// Chunk returns the range of n elements at position i of k. All ranges have ceil(n/k) elements until the
// elements run out: the last ones may be shorter or empty.
func Chunk(n, k, i int) Range {
	c := (n + k - 1) / k
	start := min(i*c, n)
	return Range{start, min(start+c, n) - start}
}
