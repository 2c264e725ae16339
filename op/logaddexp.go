package op

// LogAddExp returns log(e^x + e^y), broadcast together, without overflow.
func LogAddExp(x, y *Tensor) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return y
	}
	more := Maximum(x, y)
	same := Equal(x, y) // the difference of two infinities is NaN
	zero := Const(more, 0)
	less := Abs(Sub(Where(same, zero, x), Where(same, zero, y)))
	return Where(same, AddScalar(MulScalar(Add(x, y), 0.5), ln2), Add(more, Softplus(Neg(less))))
}

const ln2 = 0.693147180559945309417232121458176568
