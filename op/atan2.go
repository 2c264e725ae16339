package op

import "math"

// Atan2 returns the angle of the point (x, y) in radians, between -π and π, broadcast together. At the origin
// it is 0, with a gradient of 0.
func Atan2(y, x *Tensor) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return y
	}
	zero := ZerosLike(Add(x, y))
	x, y = Add(x, zero), Add(y, zero)
	// The half-angle formula has a denominator that is 0 only at the origin and on the negative x axis.
	radius := root(Add(Square(x), Square(y)), Sqrt)
	right := GreaterEqual(x, zero)
	none := Equal(radius, zero)
	straight := LogicalAnd(LogicalNot(right), Equal(y, zero))
	avoid := LogicalOr(none, straight)
	above := Where(right, y, Sub(radius, x))
	below := Where(avoid, OnesLike(x), Where(right, Add(radius, x), y))
	half := Atan(Div(Where(avoid, zero, above), below))
	// On the negative x axis the angle is π and the gradient that of y/x.
	line := Add(Div(y, Where(straight, x, OnesLike(x))), Const(x, math.Pi))
	return Where(straight, line, Where(none, zero, MulScalar(half, 2)))
}
