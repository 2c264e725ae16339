package op

// HardSigmoid returns (x+3)/6 clamped to [0, 1], a piecewise linear sigmoid. [Courbariaux et al. 2015]
func HardSigmoid(x *Tensor) *Tensor { return ramp(x, 3, 6) }

// HardSwish returns x·HardSigmoid(x). [Howard et al. 2019]
func HardSwish(x *Tensor) *Tensor { return Mul(x, HardSigmoid(x)) }

// ReLU6 returns x clamped to [0, 6]. [Krizhevsky 2010]
func ReLU6(x *Tensor) *Tensor { return HardTanh(x, 0, 6) }

// HardTanh returns x clamped to [low, high]; its gradient at the bounds is 0.
func HardTanh(x *Tensor, low, high float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	inside := LogicalAnd(Greater(x, Const(x, low)), Less(x, Const(x, high)))
	return Where(inside, x, StopGradient(Clamp(x, low, high)))
}

// ramp returns (x+shift)/width clamped to [0, 1].
func ramp(x *Tensor, shift, width float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(HardTanh(AddScalar(x, shift), 0, width), 1/width)
}
