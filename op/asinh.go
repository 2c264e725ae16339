package op

// Asinh returns the number whose hyperbolic sine each element is.
func Asinh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	// log(x + √(x²+1)) of |x|, without a difference that cancels; |x| + x²/(1+√(x²+1)) is its argument less 1.
	side := signOrOne(x)
	a, s := Mul(x, side), Square(x)
	return Mul(side, Log1p(Add(a, Div(s, AddScalar(Sqrt(AddScalar(s, 1)), 1)))))
}

// signOrOne returns -1 for negative elements and 1 for all others, as a constant.
func signOrOne(x *Tensor) *Tensor { return Where(Less(x, Const(x, 0)), Const(x, -1), Const(x, 1)) }

// Acosh returns the number of at least 0 whose hyperbolic cosine each element is; NaN below 1.
func Acosh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	beyond := AddScalar(x, -1)
	return Log1p(Add(beyond, Sqrt(Mul(beyond, AddScalar(x, 1)))))
}

// Atanh returns the number whose hyperbolic tangent each element is; NaN beyond 1.
func Atanh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(Sub(Log1p(x), Log1p(Neg(x))), 0.5)
}
