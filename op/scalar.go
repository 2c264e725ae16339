package op

// AddScalar returns x + c.
func AddScalar(x *Tensor, c float64) *Tensor { return Add(x, Const(x, c)) }

// MulScalar returns x times c.
func MulScalar(x *Tensor, c float64) *Tensor { return Mul(x, Const(x, c)) }
