package op

// SoftShrink returns x moved towards 0 by lambda, and 0 for |x| ≤ lambda.
func SoftShrink(x *Tensor, lambda float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	zero := Const(x, 0)
	above := Where(Greater(x, Const(x, lambda)), AddScalar(x, -lambda), zero)
	return Where(Less(x, Const(x, -lambda)), AddScalar(x, lambda), above)
}

// HardShrink returns x, and 0 for |x| ≤ lambda.
func HardShrink(x *Tensor, lambda float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	near := LogicalAnd(GreaterEqual(x, Const(x, -lambda)), LessEqual(x, Const(x, lambda)))
	return Where(near, Const(x, 0), x)
}

// TanhShrink returns x − tanh(x).
func TanhShrink(x *Tensor) *Tensor { return Sub(x, Tanh(x)) }

// Threshold returns x where it is more than bound, and value elsewhere.
func Threshold(x *Tensor, bound, value float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Where(Greater(x, Const(x, bound)), x, Const(x, value))
}
