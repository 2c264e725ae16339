package op

// Asinh returns the inverse hyperbolic sine of each element.
func Asinh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	// log(x + √(x²+1)) for |x|, as log1p of |x| + x²/(1+√(x²+1)), which has no difference that cancels.
	side := signOrOne(x)
	a, s := Mul(x, side), Square(x)
	return Mul(side, Log1p(Add(a, Div(s, AddScalar(Sqrt(AddScalar(s, 1)), 1)))))
}

// signOrOne returns -1 for negative elements and 1 for all others, as a constant.
func signOrOne(x *Tensor) *Tensor { return Where(Less(x, Const(x, 0)), Const(x, -1), Const(x, 1)) }

// Acosh returns the inverse hyperbolic cosine of each element, at least 0; NaN below 1.
func Acosh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	beyond := AddScalar(x, -1)
	return Log1p(Add(beyond, Sqrt(Mul(beyond, AddScalar(x, 1)))))
}

// Atanh returns the inverse hyperbolic tangent of each element; NaN outside [-1, 1].
func Atanh(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(Sub(Log1p(x), Log1p(Neg(x))), 0.5)
}
