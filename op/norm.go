package op

import "math"

// Norm is (Σ |x|^p)^(1/p) over dims, which are dropped; no dims means all. With p infinite it is the largest |x|, with
// p = 0 the number of elements that are not zero. The gradient of the root at zero is infinite, as it is. Powers of 16-bit
// floats are kept in float32.
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
		return Sqrt(Sum(Square(x), dims...))
	}
	return Pow(Sum(Pow(Abs(x), p), dims...), 1/p)
}
