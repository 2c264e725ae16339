package op

// Trunc returns each element without its fraction: the nearest whole number towards 0. Its gradient is 0.
func Trunc(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Where(Less(x, Const(x, 0)), Ceil(x), Floor(x))
}

// Frac returns each element's fraction, with its sign.
func Frac(x *Tensor) *Tensor { return Sub(x, Trunc(x)) }

// FMod returns x less as many times y as fit towards 0: what is left has the sign of x, as in C. Mod has that
// of y.
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
