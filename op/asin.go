package op

import "math"

// Asin returns the arcsine of each element, between -π/2 and π/2; NaN outside [-1, 1].
func Asin(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	one := Const(x, 1)
	// (1−x)(1+x) keeps the digits that 1−x² loses near 1. At 1 itself the quotient is infinite and its angle
	// π/2.
	return Atan(Div(x, Sqrt(Mul(Sub(one, x), Add(one, x)))))
}

// Acos returns the arccosine of each element, between 0 and π; NaN outside [-1, 1].
func Acos(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Sub(Const(x, math.Pi/2), Asin(x))
}
