package op

import "math"

// CosineSimilarity returns the cosine of the angle between x and y, broadcast together, along dim, which is
// dropped. Norms are at least eps.
func CosineSimilarity(x, y *Tensor, dim int, eps float64) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return y
	}
	length := func(t *Tensor) *Tensor { return Clamp(Norm(t, 2, dim), eps, math.Inf(1)) }
	return Div(Sum(Mul(x, y), dim), Mul(length(x), length(y)))
}

// Normalize returns x divided by its p-norm along dim, or by eps if that is more.
func Normalize(x *Tensor, p float64, dim int, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Div(x, KeepDims(Clamp(Norm(x, p, dim), eps, math.Inf(1)), x, dim))
}

// PairwiseDistance returns the p-norm, over the last dim, of x − y + eps.
func PairwiseDistance(x, y *Tensor, p, eps float64) *Tensor {
	d := Sub(x, y)
	if d.Err() != nil {
		return d
	}
	return Norm(AddScalar(d, eps), p, -1)
}
