package kernel

import "math"

// SoftmaxRow sets dst[i] = exp(x[i]-max)/sum, where max is the largest of x and
// sum is the sum of exp(x[j]-max).
func SoftmaxRow[T Float](dst, x []T) {
	x = x[:len(dst)]
	if len(dst) <= SumBlock && inVectors(simd.softmaxRow, dst, x) {
		return
	}
	sum := expSumStore(dst, x, MaxOf(x))
	MulScalar(dst, dst, 1/sum)
}

// LogSoftmaxRow sets dst[i] = (x[i]-max)-log(sum of exp(x[j]-max)).
func LogSoftmaxRow[T Float](dst, x []T) {
	x = x[:len(dst)]
	m := MaxOf(x)
	logSum := T(math.Log(float64(expSum(x, m))))
	if f := simd.shift2; f != nil {
		if d := as32(dst); d != nil {
			f(d, as32(x), float32(m), float32(logSum))
			return
		}
	}
	for i := range dst {
		dst[i] = (x[i] - m) - logSum
	}
}

// SoftmaxGradRow sets dx[i] = y[i]*(dy[i]-sum of y[j]*dy[j]), the gradient of a
// softmax with the result y.
func SoftmaxGradRow[T Float](dx, y, dy []T) {
	y, dy = y[:len(dx)], dy[:len(dx)]
	dot := Dot(y, dy)
	if f := simd.softmaxGrad; f != nil {
		if d := as32(dx); d != nil {
			f(d, as32(y), as32(dy), float32(dot))
			return
		}
	}
	for i := range dx {
		dx[i] = y[i] * (dy[i] - dot)
	}
}

// LogSumExpRow returns log(sum of exp(x[i])), computed as max+log(sum of
// exp(x[i]-max)); it is the infinity itself when max is infinite.
func LogSumExpRow[T Float](x []T) T {
	m, logSum := logSumExp(x)
	return T(float64(m) + logSum)
}

// logSumExp returns the largest of x and log(sum of exp(x[i]-max)).
func logSumExp[T Float](x []T) (m T, logSum float64) {
	m = MaxOf(x)
	if math.IsInf(float64(m), 0) {
		return m, 0 // inf-inf would make it NaN
	}
	return m, math.Log(float64(expSum(x, m)))
}

// MaxExpSum returns the largest of x and the sum of exp(x[i]-max); the sum is 1 when max is infinite, as in
// LogSumExpRow, and 0 without elements.
func MaxExpSum[T Float](x []T) (m, sum T) {
	m = MaxOf(x)
	switch {
	case len(x) == 0:
		return m, 0
	case math.IsInf(float64(m), 0):
		return m, 1
	}
	return m, expSum(x, m)
}

// expSum returns the sum of exp(x[i]-shift) in the order of Sum.
func expSum[T Float](x []T, shift T) T {
	return tree(len(x), func(lo, hi int) T {
		if f := simd.expSum; f != nil {
			if v := as32(x[lo:hi]); v != nil {
				return T(f(v, float32(shift)))
			}
		}
		return T(accumulate(hi-lo, func(i int) float64 { return math.Exp(float64(x[lo+i] - shift)) }))
	})
}

// expSumStore sets dst[i] = exp(x[i]-shift) and returns the sum of dst in the
// order of Sum.
func expSumStore[T Float](dst, x []T, shift T) T {
	return tree(len(dst), func(lo, hi int) T {
		if f := simd.expSumStore; f != nil {
			if d := as32(dst[lo:hi]); d != nil {
				return T(f(d, as32(x[lo:hi]), float32(shift)))
			}
		}
		for i := lo; i < hi; i++ {
			dst[i] = expOf(x[i] - shift)
		}
		return sumLeaf(dst[lo:hi])
	})
}
