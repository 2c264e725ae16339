package op

// HardSigmoid returns (x+3)/6, brought between 0 and 1: a sigmoid of straight lines. [Courbariaux et al.
// 2015]
func HardSigmoid(x *Tensor) *Tensor { return ramp(x, 3, 6) }

// HardSwish returns x·HardSigmoid(x). [Howard et al. 2019]
func HardSwish(x *Tensor) *Tensor { return Mul(x, HardSigmoid(x)) }

// ReLU6 returns x brought between 0 and 6. [Krizhevsky 2010]
func ReLU6(x *Tensor) *Tensor { return HardTanh(x, 0, 6) }

// HardTanh returns x brought between low and high; at the bounds themselves its gradient is 0.
func HardTanh(x *Tensor, low, high float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	inside := LogicalAnd(Greater(x, Const(x, low)), Less(x, Const(x, high)))
	return Where(inside, x, StopGradient(Clamp(x, low, high)))
}

// ramp returns (x+shift)/width brought between 0 and 1.
func ramp(x *Tensor, shift, width float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(HardTanh(AddScalar(x, shift), 0, width), 1/width)
}
