package op

// GroupNorm shifts and scales each group of channels of x [batch, channels, …], in each batch element, to
// mean 0 and variance 1, then scales by gamma and shifts by beta, each a number for each channel. A nil gamma
// is ones, a nil beta zeros.
func GroupNorm(x *Tensor, groups int, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(x.Shape()) < 2 || groups < 1 || x.Dim(1)%groups != 0 {
		return refuse(x, "group_norm", "%v: want channels that divide into %d groups", x.Type(), groups)
	}
	parts := Reshape(x, append([]int{x.Dim(0), groups, x.Dim(1) / groups}, x.Shape()[2:]...)...)
	var dims []int
	for d := 2; d < len(parts.Shape()); d++ {
		dims = append(dims, d)
	}
	y, _, _ := standardize(parts, dims, eps)
	return Cast(scaleChannels(Reshape(y, x.Shape()...), gamma, beta), x.DType())
}

// InstanceNorm is GroupNorm with each channel a group of its own.
func InstanceNorm(x, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil || len(x.Shape()) < 2 {
		return GroupNorm(x, 1, gamma, beta, eps)
	}
	return GroupNorm(x, x.Dim(1), gamma, beta, eps)
}

// BatchNorm shifts and scales each channel of x [batch, channels, …] over all else to mean 0 and variance 1,
// then scales by gamma and shifts by beta, each a number for each channel. It also returns the means and the
// variances, those of 16-bit floats in float32: what running statistics are made of. A nil gamma is ones, a
// nil beta zeros.
func BatchNorm(x, gamma, beta *Tensor, eps float64) (y, mean, variance *Tensor) {
	if x.Err() != nil || len(x.Shape()) < 2 {
		bad := GroupNorm(x, 1, gamma, beta, eps)
		return bad, bad, bad
	}
	y, mean, variance = standardize(x, dimsExcept(len(x.Shape()), 1, 1), eps)
	return Cast(scaleChannels(y, gamma, beta), x.DType()), mean, variance
}

// BatchNormInference is BatchNorm by a mean and a variance for each channel that are given: running
// statistics.
func BatchNormInference(x, mean, variance, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(x.Shape()) < 2 {
		return refuse(x, "batch_norm", "%v: want batch, channels and other dims", x.Type())
	}
	y := addChannels(wide(x), Neg(wide(mean)))
	y = scaleChannels(y, Rsqrt(AddScalar(wide(variance), eps)), nil)
	return Cast(scaleChannels(y, gamma, beta), x.DType())
}

// standardize brings x to mean 0 and variance 1 over dims, and says what they were, all in the dtype in which
// x is computed: squares of 16-bit floats overflow, and their differences from a rounded mean are lost.
func standardize(x *Tensor, dims []int, eps float64) (y, mean, variance *Tensor) {
	x = wide(x)
	mean = Mean(x, dims...)
	centred := Sub(x, keepDims(mean, x, dims))
	variance = Mean(Square(centred), dims...)
	return Mul(centred, keepDims(Rsqrt(AddScalar(variance, eps)), x, dims)), mean, variance
}

// scaleChannels multiplies y, which is in the dtype of computing, by a number for each channel and adds
// another.
func scaleChannels(y, gamma, beta *Tensor) *Tensor {
	if gamma != nil && y.Err() == nil && gamma.Err() == nil {
		y = Mul(y, Reshape(wide(gamma), append([]int{y.Dim(1)}, ones(len(y.Shape())-2)...)...))
	}
	if beta != nil {
		beta = wide(beta)
	}
	return addChannels(y, beta)
}
