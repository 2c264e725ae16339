package op

// LeakyReLU returns x where that is positive and slope·x elsewhere. [Maas et al. 2013]
func LeakyReLU(x *Tensor, slope float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Where(Greater(x, Const(x, 0)), x, MulScalar(x, slope))
}

// PReLU is LeakyReLU with learned slopes: one, or one for each of the channels in dim 1 of x. [He et al.
// 2015]
func PReLU(x, slopes *Tensor) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case slopes.Err() != nil:
		return slopes
	}
	channels := 1
	if len(x.Shape()) > 1 {
		channels = x.Dim(1)
	}
	if n := slopes.Shape().Len(); n != 1 && n != channels {
		return refuse(x, "prelu", "slopes %v: want 1 or %d, one for each channel", slopes.Type(), channels)
	}
	shape := ones(max(1, len(x.Shape())))
	if slopes.Shape().Len() > 1 {
		shape[1] = channels
	}
	if len(x.Shape()) == 0 {
		shape = nil
	}
	return Where(Greater(x, Const(x, 0)), x, Mul(x, Reshape(slopes, shape...)))
}
