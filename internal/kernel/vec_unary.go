package kernel

// Exp sets dst[i] = exp(x[i]). A float32 result below 1.3e-38 may be zero.
func Exp[T Float](dst, x []T) { unary(dst, x, simd.exp, expOf[T]) }

// Log sets dst[i] = log(x[i]), the natural logarithm.
func Log[T Float](dst, x []T) { unary(dst, x, simd.log, logOf[T]) }

// Erf sets dst[i] = erf(x[i]).
func Erf[T Float](dst, x []T) { unary(dst, x, simd.erf, erfOf[T]) }

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])).
func Sigmoid[T Float](dst, x []T) { unary(dst, x, simd.sigmoid, sigmoidOf[T]) }

// SiLU sets dst[i] = x[i]/(1+exp(-x[i])).
func SiLU[T Float](dst, x []T) { unary(dst, x, simd.silu, siluOf[T]) }

// GELU sets dst[i] = x[i]*(1+erf(x[i]/sqrt(2)))/2.
func GELU[T Float](dst, x []T) { unary(dst, x, simd.gelu, geluOf[T]) }

// GELUTanh sets dst[i] = x[i]*(1+tanh(sqrt(2/pi)*(x[i]+0.044715*x[i]**3)))/2.
func GELUTanh[T Float](dst, x []T) { unary(dst, x, simd.geluTanh, geluTanhOf[T]) }

// Sqrt sets dst[i] = sqrt(x[i]).
func Sqrt[T Float](dst, x []T) { unary(dst, x, simd.sqrt, sqrtOf[T]) }

// Rsqrt sets dst[i] = 1/sqrt(x[i]).
func Rsqrt[T Float](dst, x []T) { unary(dst, x, simd.rsqrt, rsqrtOf[T]) }

// Reciprocal sets dst[i] = 1/x[i].
func Reciprocal[T Float](dst, x []T) {
	unary(dst, x, simd.reciprocal, func(v T) T { return 1 / v })
}

// Neg sets dst[i] = -x[i].
func Neg[T Float](dst, x []T) { unary(dst, x, simd.neg, func(v T) T { return -v }) }

// Abs sets dst[i] = |x[i]|.
func Abs[T Float](dst, x []T) { unary(dst, x, simd.abs, absOf[T]) }

// Square sets dst[i] = x[i]*x[i].
func Square[T Float](dst, x []T) { unary(dst, x, simd.square, func(v T) T { return v * v }) }

// ReLU sets dst[i] = max(x[i], 0), keeping NaN.
func ReLU[T Float](dst, x []T) { unary(dst, x, simd.relu, func(v T) T { return max(v, 0) }) }

// Log1p sets dst[i] = log(1+x[i]), accurate near zero.
func Log1p[T Float](dst, x []T) { unary(dst, x, simd.log1p, log1pOf[T]) }

// Expm1 sets dst[i] = exp(x[i])-1, accurate near zero.
func Expm1[T Float](dst, x []T) { unary(dst, x, simd.expm1, expm1Of[T]) }

// Softplus sets dst[i] = log(1+exp(x[i])) without overflow.
func Softplus[T Float](dst, x []T) { unary(dst, x, simd.softplus, softplusOf[T]) }

// Sin sets dst[i] = sin(x[i]).
func Sin[T Float](dst, x []T) { unary(dst, x, nil, sinOf[T]) }

// Atan sets dst[i] = atan(x[i]).
func Atan[T Float](dst, x []T) { unary(dst, x, nil, atanOf[T]) }

// Cos sets dst[i] = cos(x[i]).
func Cos[T Float](dst, x []T) { unary(dst, x, nil, cosOf[T]) }

// unary is the one dispatch of the maps above: the vector kernel when there is
// one for T, else the loop dst[i] = plain(x[i]).
func unary[T Float](dst, x []T, vector func(dst, x []float32), plain func(T) T) {
	x = x[:len(dst)]
	if !unary32(vector, dst, x) {
		mapPlain(dst, x, plain)
	}
}
