package op

// ELU returns x where that is positive and alpha·(e^x − 1) elsewhere. [Clevert et al. 2015]
func ELU(x *Tensor, alpha float64) *Tensor { return scaledELU(x, alpha, 1, 1) }

// SELU returns ELU with the two constants that keep the mean and the variance of a deep network's
// activations. [Klambauer et al. 2017]
func SELU(x *Tensor) *Tensor {
	const alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
	return scaledELU(x, alpha*scale, scale, 1)
}

// CELU returns x where that is positive and alpha·(e^(x/alpha) − 1) elsewhere: ELU without a corner.
// [Barron 2017]
func CELU(x *Tensor, alpha float64) *Tensor {
	if x.Err() == nil && alpha == 0 {
		return refuse(x, "celu", "alpha is 0: want another number")
	}
	return scaledELU(x, alpha, 1, 1/alpha)
}

// scaledELU returns above·x where x is positive and below·(e^(rate·x) − 1) elsewhere.
func scaledELU(x *Tensor, below, above, rate float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	positive := Greater(x, Const(x, 0))
	falling := Where(positive, Const(x, 0), x) // the branch not taken must not overflow
	return Where(positive, MulScalar(x, above), MulScalar(Expm1(MulScalar(falling, rate)), below))
}
