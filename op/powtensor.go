package op

import "math"

// PowTensor returns x to the power of y, broadcast together. Negative x have integer powers only. If x is 0,
// the power is 0, 1 or infinite, depending on the sign of y, and y's gradient is 0.
func PowTensor(x, y *Tensor) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return y
	}
	zero := ZerosLike(Add(x, y))
	x, y = Add(x, zero), Add(y, zero)
	one := OnesLike(x)
	atZero, negative := Equal(x, zero), Less(x, zero)
	size := Exp(Mul(y, Log(Where(atZero, one, Abs(x)))))
	odd := NotEqual(MulScalar(Floor(MulScalar(y, 0.5)), 2), y)
	whole := Equal(Floor(y), y)
	signed := Where(LogicalAnd(negative, odd), Neg(size), size)
	power := Where(LogicalAnd(negative, LogicalNot(whole)), Const(zero, math.NaN()), signed)
	nothing := Where(Equal(y, zero), one, Where(Greater(y, zero), zero, Const(zero, math.Inf(1))))
	slope := Where(Equal(y, one), x, zero) // of x at 0: that of x^1, else 0
	return Where(atZero, Add(StopGradient(nothing), slope), power)
}
