package op

// Trunc rounds each element towards 0. Its gradient is 0.
func Trunc(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Where(Less(x, Const(x, 0)), Ceil(x), Floor(x))
}

// Frac returns the fractional part of each element, with its sign.
func Frac(x *Tensor) *Tensor { return Sub(x, Trunc(x)) }

// FMod returns the remainder of x divided by y, with the sign of x, as in C. That of Mod has the sign of y.
func FMod(x, y *Tensor) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return y
	case !x.DType().IsFloat():
		left := Mod(x, y)
		zero := Const(left, 0)
		wrong := LogicalAnd(NotEqual(left, zero), NotEqual(Less(Add(x, zero), zero), Less(Add(y, zero), zero)))
		return Where(wrong, Sub(left, y), left)
	}
	return Sub(x, Mul(Trunc(Div(x, y)), y))
}
