package op

// LogSigmoid returns log(sigmoid(x)), computed without taking the logarithm of what a sigmoid rounds to 0.
func LogSigmoid(x *Tensor) *Tensor { return Neg(Softplus(Neg(x))) }
