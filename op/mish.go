package op

// Mish is x·tanh(softplus(x)). [Misra 2019]
func Mish(x *Tensor) *Tensor { return Mul(x, Tanh(Softplus(x))) }
