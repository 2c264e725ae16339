package op

// Softsign returns x/(1+|x|).
func Softsign(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Div(x, AddScalar(Abs(x), 1))
}
