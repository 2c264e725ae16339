package op

// LogSigmoid returns log(sigmoid(x)) without taking the logarithm of a sigmoid that was rounded to 0.
func LogSigmoid(x *Tensor) *Tensor { return Neg(Softplus(Neg(x))) }
