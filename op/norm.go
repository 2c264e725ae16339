package op

import "math"

// Norm returns (Σ |x|^p)^(1/p) over dims, which are dropped; no dims means all. With p infinite it is the
// largest |x|, with p = 0 the number of nonzero elements. If all elements are zero, the gradient is zero,
// although that of the root is infinite. Powers of 16-bit floats are computed in float32.
func Norm(x *Tensor, p float64, dims ...int) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Cast(normOf(wide(x), p, dims), x.DType())
}

func normOf(x *Tensor, p float64, dims []int) *Tensor {
	switch {
	case math.IsInf(p, 1):
		return AMax(Abs(x), dims...)
	case math.IsInf(p, -1):
		return AMin(Abs(x), dims...)
	case p == 0:
		return Sum(Cast(NotEqual(x, ZerosLike(x)), x.DType()), dims...)
	case p == 1:
		return Sum(Abs(x), dims...)
	case p == 2:
		return root(Sum(Square(x), dims...), Sqrt)
	}
	return root(Sum(Pow(Abs(x), p), dims...), func(s *Tensor) *Tensor { return Pow(s, 1/p) })
}

// root returns f of sums of powers, and 0 with a gradient of 0 where a sum is 0.
func root(sums *Tensor, f func(s *Tensor) *Tensor) *Tensor {
	zero := Equal(sums, Const(sums, 0))
	return Where(zero, Const(sums, 0), f(Where(zero, Const(sums, 1), sums)))
}
