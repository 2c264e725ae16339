package op

// Sinh returns the hyperbolic sine (e^x − e^-x)/2, accurate near 0.
func Sinh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(Sub(Expm1(x), Expm1(Neg(x))), 0.5)
}

// Cosh returns the hyperbolic cosine (e^x + e^-x)/2.
func Cosh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(Add(Exp(x), Exp(Neg(x))), 0.5)
}
