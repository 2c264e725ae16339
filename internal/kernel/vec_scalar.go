package kernel

import "math"

// The functions in this file are the per-element definitions. They go through
// float64 so that the float32 results are correctly rounded but for rare ties.

const (
	geluC0 = 0.7978845608028653558798921198687637369 // sqrt(2/pi)
	geluC1 = 0.044715
)

func expOf[T Float](x T) T   { return T(math.Exp(float64(x))) }
func logOf[T Float](x T) T   { return T(math.Log(float64(x))) }
func tanhOf[T Float](x T) T  { return T(math.Tanh(float64(x))) }
func erfOf[T Float](x T) T   { return T(math.Erf(float64(x))) }
func log1pOf[T Float](x T) T { return T(math.Log1p(float64(x))) }
func expm1Of[T Float](x T) T { return T(math.Expm1(float64(x))) }
func sinOf[T Float](x T) T   { return T(math.Sin(float64(x))) }
func atanOf[T Float](x T) T  { return T(math.Atan(float64(x))) }
func cosOf[T Float](x T) T   { return T(math.Cos(float64(x))) }
func sqrtOf[T Float](x T) T  { return T(math.Sqrt(float64(x))) }
func rsqrtOf[T Float](x T) T { return T(1 / math.Sqrt(float64(x))) }
func absOf[T Float](x T) T   { return T(math.Abs(float64(x))) }

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func sigmoidOf[T Float](x T) T { return T(sigmoid64(float64(x))) }

// siluOf divides rather than multiplying by a sigmoid, which would underflow to
// a denormal where x/(1+exp(-x)) is still exact.
func siluOf[T Float](x T) T { return T(float64(x) / (1 + math.Exp(-float64(x)))) }

// geluOf uses erfc so that the negative tail keeps its relative accuracy.
func geluOf[T Float](x T) T {
	v := float64(x)
	return T(0.5 * v * math.Erfc(-v*(1/math.Sqrt2)))
}

// geluTanhOf uses (1+tanh(u))/2 = 1/(1+exp(-2u)), free of cancellation.
func geluTanhOf[T Float](x T) T {
	v := float64(x)
	return T(v / (1 + math.Exp(-2*geluC0*(v+geluC1*v*v*v))))
}

func softplusOf[T Float](x T) T {
	v := float64(x)
	return T(max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))))
}

func geluGradOf(x float64) float64 {
	if math.Abs(x) > 40 {
		return math.Max(0, math.Copysign(1, x)) // avoids inf*0
	}
	cdf := 0.5 * math.Erfc(-x*(1/math.Sqrt2))
	return cdf + x*math.Exp(-0.5*x*x)*(1/(math.Sqrt2*math.SqrtPi))
}

func geluTanhGradOf(x float64) float64 {
	x = max(min(x, 1e4), -1e4) // the derivative is already 0 or 1 there; avoids inf*0
	s := sigmoid64(2 * geluC0 * (x + geluC1*x*x*x))
	return s + x*s*(1-s)*2*geluC0*(1+3*geluC1*x*x)
}

func siluGradOf(x float64) float64 {
	x = max(min(x, 1e4), -1e4) // see geluTanhGradOf
	s := sigmoid64(x)
	return s * (1 + x*(1-s))
}
