package kernel

import "math"

// SumBlock is the number of consecutive elements, counted from the start of the
// slice, whose sum is one leaf of the summation tree. A caller that sums a
// tensor on several threads gives each whole blocks and joins the leaves with
// Tree, so the result does not depend on how many threads there were.
const SumBlock = 4096

// Sum returns the sum of x: Tree of the sums of its blocks of SumBlock elements.
func Sum[T Float](x []T) T {
	return tree(len(x), func(lo, hi int) T { return sumLeaf(x[lo:hi]) })
}

// SumSquares returns the sum of x[i]*x[i], in the order of Sum.
func SumSquares[T Float](x []T) T {
	return tree(len(x), func(lo, hi int) T { return sumSquaresLeaf(x[lo:hi]) })
}

// Dot returns the sum of x[i]*y[i], in the order of Sum.
func Dot[T Float](x, y []T) T {
	y = y[:len(x)]
	return tree(len(x), func(lo, hi int) T { return dotLeaf(x[lo:hi], y[lo:hi]) })
}

// Tree returns the sum of parts as a balanced binary tree over their positions:
// the left subtree holds the largest power of two below len(parts). Applied to
// the sums of consecutive SumBlock blocks it gives what Sum gives.
func Tree[T Float](parts []T) T {
	return fold(len(parts), func(i int) T { return parts[i] })
}

// tree defines the order in which elements are added, for all sums.
func tree[T Float](n int, leaf func(lo, hi int) T) T {
	if n <= SumBlock { // most rows need no bookkeeping
		return leaf(0, n)
	}
	return fold((n+SumBlock-1)/SumBlock, func(i int) T {
		return leaf(i*SumBlock, min(n, (i+1)*SumBlock))
	})
}

// fold adds n parts as Tree describes. Like a binary counter it keeps one
// partial sum for every set bit of the number of parts seen, so each addition
// joins two subtrees of equal size until the remainders are joined at the end.
func fold[T Float](n int, part func(i int) T) T {
	var partial [64]T
	depth := 0
	for i := range n {
		s := part(i)
		for bit := i; bit&1 == 1; bit >>= 1 {
			depth--
			s = partial[depth] + s
		}
		partial[depth] = s
		depth++
	}
	if depth == 0 {
		return 0
	}
	s := partial[depth-1]
	for depth -= 2; depth >= 0; depth-- {
		s = partial[depth] + s
	}
	return s
}

func sumLeaf[T Float](x []T) T {
	if f := simd.sum; f != nil {
		if v := as32(x); v != nil {
			return T(f(v))
		}
	}
	if v, ok := any(x).([]float64); ok && simd64.lanes > 0 {
		return T(sumDoubles(v, simd64.lanes))
	}
	return T(accumulate(len(x), func(i int) float64 { return float64(x[i]) }))
}

// sumDoubles computes a leaf in the order of vectors of the given number of lanes: elements are added to four
// vectors in turn, the remainder to the first, and the vectors are joined by halves, then their lanes.
func sumDoubles(x []float64, lanes int) float64 {
	var acc [32]float64
	n := 4 * lanes
	sums := acc[:n]
	for ; len(x) >= n; x = x[n:] {
		for i, v := range x[:n] {
			sums[i] += v
		}
	}
	for i, v := range x {
		sums[i%lanes] += v
	}
	for n /= 2; n > 0; n /= 2 {
		for i := range n {
			sums[i] += sums[i+n]
		}
	}
	return sums[0]
}

func sumSquaresLeaf[T Float](x []T) T {
	if f := simd.sumSquares; f != nil {
		if v := as32(x); v != nil {
			return T(f(v))
		}
	}
	return T(accumulate(len(x), func(i int) float64 { return float64(x[i]) * float64(x[i]) }))
}

func dotLeaf[T Float](x, y []T) T {
	if f := simd.dot; f != nil {
		if v := as32(x); v != nil {
			return T(f(v, as32(y)))
		}
	}
	return T(accumulate(len(x), func(i int) float64 { return float64(x[i]) * float64(y[i]) }))
}

// accumulate returns the plain leaf: the sum of term(0..n-1) in float64, which makes a
// float32 leaf all but correctly rounded.
func accumulate(n int, term func(i int) float64) float64 {
	var a, b float64
	i := 0
	for ; i+1 < n; i += 2 {
		a += term(i)
		b += term(i + 1)
	}
	if i < n {
		a += term(i)
	}
	return a + b
}

// MaxOf returns the largest element, NaN if any element is, and -Inf for none.
func MaxOf[T Float](x []T) T {
	if f := simd.maxOf; f != nil {
		if v := as32(x); v != nil {
			return T(f(v))
		}
	}
	m := T(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m + 0 // without the sign of zero, as in the vector kernels
}

// MinOf returns the smallest element, NaN if any element is, and +Inf for none.
func MinOf[T Float](x []T) T {
	if f := simd.minOf; f != nil {
		if v := as32(x); v != nil {
			return T(f(v))
		}
	}
	m := T(math.Inf(1))
	for _, v := range x {
		m = min(m, v)
	}
	return m + 0
}
