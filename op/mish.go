package op

// Mish returns x·tanh(softplus(x)). [Misra 2019]
func Mish(x *Tensor) *Tensor { return Mul(x, Tanh(Softplus(x))) }
