package kernel

// Exp sets dst[i] = exp(x[i]). A float32 result below 1.3e-38 may be zero.
func Exp[T Float](dst, x []T) { unary(dst, x, simd.exp, simd64.exp, expOf[T]) }

// Log sets dst[i] = log(x[i]), the natural logarithm.
func Log[T Float](dst, x []T) { unary(dst, x, simd.log, simd64.log, logOf[T]) }

// Tanh sets dst[i] = tanh(x[i]).
func Tanh[T Float](dst, x []T) { unary(dst, x, simd.tanh, simd64.tanh, tanhOf[T]) }

// Erf sets dst[i] = erf(x[i]).
func Erf[T Float](dst, x []T) { unary(dst, x, simd.erf, simd64.erf, erfOf[T]) }

// Sigmoid sets dst[i] = 1/(1+exp(-x[i])).
func Sigmoid[T Float](dst, x []T) { unary(dst, x, simd.sigmoid, simd64.sigmoid, sigmoidOf[T]) }

// SiLU sets dst[i] = x[i]/(1+exp(-x[i])).
func SiLU[T Float](dst, x []T) { unary(dst, x, simd.silu, nil, siluOf[T]) }

// GELU sets dst[i] = x[i]*(1+erf(x[i]/sqrt(2)))/2.
func GELU[T Float](dst, x []T) { unary(dst, x, simd.gelu, nil, geluOf[T]) }

// GELUTanh sets dst[i] = x[i]*(1+tanh(sqrt(2/pi)*(x[i]+0.044715*x[i]**3)))/2.
func GELUTanh[T Float](dst, x []T) { unary(dst, x, simd.geluTanh, nil, geluTanhOf[T]) }

// Sqrt sets dst[i] = sqrt(x[i]).
func Sqrt[T Float](dst, x []T) { unary(dst, x, simd.sqrt, nil, sqrtOf[T]) }

// Rsqrt sets dst[i] = 1/sqrt(x[i]).
func Rsqrt[T Float](dst, x []T) { unary(dst, x, simd.rsqrt, nil, rsqrtOf[T]) }

// Reciprocal sets dst[i] = 1/x[i].
func Reciprocal[T Float](dst, x []T) {
	unary(dst, x, simd.reciprocal, nil, func(v T) T { return 1 / v })
}

// Neg sets dst[i] = -x[i].
func Neg[T Float](dst, x []T) { unary(dst, x, simd.neg, nil, func(v T) T { return -v }) }

// Abs sets dst[i] = |x[i]|.
func Abs[T Float](dst, x []T) { unary(dst, x, simd.abs, nil, absOf[T]) }

// Square sets dst[i] = x[i]*x[i].
func Square[T Float](dst, x []T) { unary(dst, x, simd.square, nil, func(v T) T { return v * v }) }

// ReLU sets dst[i] = max(x[i], 0), keeping NaN.
func ReLU[T Float](dst, x []T) { unary(dst, x, simd.relu, nil, func(v T) T { return max(v, 0) }) }

// Log1p sets dst[i] = log(1+x[i]), accurate near zero.
func Log1p[T Float](dst, x []T) { unary(dst, x, simd.log1p, nil, log1pOf[T]) }

// Expm1 sets dst[i] = exp(x[i])-1, accurate near zero.
func Expm1[T Float](dst, x []T) { unary(dst, x, simd.expm1, nil, expm1Of[T]) }

// Softplus sets dst[i] = log(1+exp(x[i])) without overflow.
func Softplus[T Float](dst, x []T) { unary(dst, x, simd.softplus, nil, softplusOf[T]) }

// Sin sets dst[i] = sin(x[i]).
func Sin[T Float](dst, x []T) { turned(dst, x, simd64.sin, sinOf[T]) }

// Atan sets dst[i] = atan(x[i]).
func Atan[T Float](dst, x []T) { unary(dst, x, nil, nil, atanOf[T]) }

// Cos sets dst[i] = cos(x[i]).
func Cos[T Float](dst, x []T) { turned(dst, x, simd64.cos, cosOf[T]) }

// unary is the one dispatch of the maps above: the vector kernel when there is
// one for T, else the loop dst[i] = plain(x[i]).
func unary[T Float](dst, x []T, single func(dst, x []float32), double func(dst, x []float64),
	plain func(T) T) {
	x = x[:len(dst)]
	if !inVectors(single, dst, x) && !inVectors(double, dst, x) {
		mapPlain(dst, x, plain)
	}
}

// mostTurn is the largest absolute argument for which the vector kernels compute sine and cosine: larger ones
// need more digits of pi. turnBlock is the number of elements that are checked at a time.
const (
	mostTurn  = 1 << 20
	turnBlock = 256
)

// turned is like unary for sine and cosine of float64; large arguments are computed one by one.
func turned[T Float](dst, x []T, double func(dst, x []float64), plain func(T) T) {
	x = x[:len(dst)]
	var block [turnBlock]T
	for lo := 0; lo < len(dst); lo += turnBlock {
		from := x[lo:min(lo+turnBlock, len(x))]
		to := block[:len(from)] // not dst, which may be x
		if !inVectors(double, to, from) {
			mapPlain(dst, x, plain)
			return
		}
		for i, v := range from {
			if !(max(v, -v) <= mostTurn) {
				to[i] = plain(v)
			}
		}
		copy(dst[lo:], to)
	}
}
