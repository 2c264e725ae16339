package kernel

import "math"

// LayerNormRow normalises one row and returns what its gradient needs:
//
//	mean = sum of x[i] / n
//	rstd = 1/sqrt(sum of (x[i]-mean)^2 / n + eps)
//	y[i] = (x[i]-mean)*rstd*gamma[i] + beta[i]
//
// A nil gamma counts as ones, a nil beta as zeros.
func LayerNormRow[T Float](y, x, gamma, beta []T, eps T) (mean, rstd T) {
	n := len(y)
	x = x[:n]
	mean = T(float64(Sum(x)) / float64(n))
	variance := float64(sumSqDev(x, mean)) / float64(n)
	rstd = T(1 / math.Sqrt(variance+float64(eps)))
	normalise(y, x, gamma, beta, mean, rstd)
	return mean, rstd
}

// RMSNormRow normalises one row and returns what its gradient needs:
//
//	rstd = 1/sqrt(sum of x[i]^2 / n + eps)
//	y[i] = x[i]*rstd*gamma[i]
//
// A nil gamma counts as ones.
func RMSNormRow[T Float](y, x, gamma []T, eps T) (rstd T) {
	n := len(y)
	x = x[:n]
	meanSq := float64(SumSquares(x)) / float64(n)
	rstd = T(1 / math.Sqrt(meanSq+float64(eps)))
	normalise(y, x, gamma, nil, 0, rstd)
	return rstd
}

// sumSqDev returns the sum of (x[i]-mean)^2 in the order of Sum.
func sumSqDev[T Float](x []T, mean T) T {
	return tree(len(x), func(lo, hi int) T {
		if f := simd.sumSqDev; f != nil {
			if v := as32(x[lo:hi]); v != nil {
				return T(f(v, float32(mean)))
			}
		}
		return T(accumulate(hi-lo, func(i int) float64 {
			d := float64(x[lo+i] - mean)
			return d * d
		}))
	})
}

// normalise sets y[i] = (x[i]-mean)*rstd*gamma[i] + beta[i].
func normalise[T Float](y, x, gamma, beta []T, mean, rstd T) {
	if gamma != nil {
		gamma = gamma[:len(y)]
	}
	if beta != nil {
		beta = beta[:len(y)]
	}
	if d := as32(y); d != nil && simd.norm != nil {
		normalise32(d, as32(x), as32(gamma), as32(beta), float32(mean), float32(rstd))
		return
	}
	for i := range y {
		v := (x[i] - mean) * rstd
		if gamma != nil {
			v *= gamma[i]
		}
		if beta != nil {
			v += beta[i]
		}
		y[i] = v
	}
}

func normalise32(y, x, gamma, beta []float32, mean, rstd float32) {
	switch {
	case gamma != nil && beta != nil:
		simd.normAffine(y, x, gamma, beta, mean, rstd)
		return
	case gamma != nil:
		simd.normGamma(y, x, gamma, mean, rstd)
	default:
		simd.norm(y, x, mean, rstd)
	}
	if beta != nil {
		Add(y, y, beta)
	}
}
