package op

import "math"

// Asin returns the angle between -π/2 and π/2 whose sine each element is; NaN beyond 1.
func Asin(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	one := Const(x, 1)
	// (1−x)(1+x) keeps what 1−x² would lose near 1. At 1 itself the quotient is infinite and its angle π/2.
	return Atan(Div(x, Sqrt(Mul(Sub(one, x), Add(one, x)))))
}

// Acos returns the angle between 0 and π whose cosine each element is; NaN beyond 1.
func Acos(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Sub(Const(x, math.Pi/2), Asin(x))
}
