package op

// Tan returns the tangent of each element, in radians.
func Tan(x *Tensor) *Tensor { return Div(Sin(x), Cos(x)) }
