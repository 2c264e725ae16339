package op

// GroupNorm normalizes each group of channels of x [batch, channels, …], in each batch element, to mean 0 and
// variance 1, then multiplies by gamma and adds beta, one number for each channel. A nil gamma means ones, a
// nil beta zeros.
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
	y := standardize(parts, dims, eps)
	return Cast(scaleChannels(Reshape(y, x.Shape()...), gamma, beta), x.DType())
}

// InstanceNorm is like GroupNorm with one group per channel.
func InstanceNorm(x, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil || len(x.Shape()) < 2 {
		return GroupNorm(x, 1, gamma, beta, eps)
	}
	return GroupNorm(x, x.Dim(1), gamma, beta, eps)
}

// BatchNorm normalizes each channel of x [batch, channels, …] over all other dims to mean 0 and variance 1,
// then multiplies by gamma and adds beta, one number for each channel. It also returns the means and
// variances, for running statistics; those of 16-bit floats are float32. A nil gamma means ones, a nil beta
// zeros.
func BatchNorm(x, gamma, beta *Tensor, eps float64) (y, mean, variance *Tensor) {
	if x.Err() != nil || len(x.Shape()) < 2 {
		bad := GroupNorm(x, 1, gamma, beta, eps)
		return bad, bad, bad
	}
	mean, variance, _ = BatchMoments(x)
	return BatchNormInference(x, mean, variance, gamma, beta, eps), mean, variance
}

// BatchMoments returns the mean and the variance of each channel of x [batch, channels, …] over all other
// dims, and the unbiased variance of a sample. They are those of all rows, also if the rows are on several
// devices; if a batch is split into micro-batches, of each micro-batch. Those of 16-bit floats are float32.
func BatchMoments(x *Tensor) (mean, variance, sample *Tensor) {
	if x.Err() != nil || len(x.Shape()) < 2 {
		bad := BatchNormInference(x, x, x, nil, nil, 0)
		return bad, bad, bad
	}
	dims, each := dimsExcept(len(x.Shape()), 1, 1), x.Shape()[2:].Len()
	statistic := func(y *Tensor, less int) *Tensor { return apply1(batchStatistic{Each: each, Less: less}, y) }
	x = wide(x)
	mean = statistic(Mean(x, dims...), 0)
	squares := Square(Sub(x, keepDims(mean, x, dims)))
	sample = MulScalar(Sum(squares, dims...), 1/float64(x.Dim(0)*each-1))
	return mean, statistic(Mean(squares, dims...), 0), statistic(sample, 1)
}

// BatchNormInference is like BatchNorm with a given mean and variance for each channel: running statistics,
// which may have a wider dtype than x.
func BatchNormInference(x, mean, variance, gamma, beta *Tensor, eps float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(x.Shape()) < 2 {
		return refuse(x, "batch_norm", "%v: want batch, channels and other dims", x.Type())
	}
	dtype := x.DType().Compute()
	y := addChannels(wide(x), Neg(Cast(mean, dtype)))
	y = scaleChannels(y, Rsqrt(AddScalar(Cast(variance, dtype), eps)), nil)
	return Cast(scaleChannels(y, gamma, beta), x.DType())
}

// standardize normalizes x to mean 0 and variance 1 over dims, in the dtype in which x is computed, because
// squares of 16-bit floats overflow, and differences from a rounded mean lose digits.
func standardize(x *Tensor, dims []int, eps float64) *Tensor {
	x = wide(x)
	centred := Sub(x, keepDims(Mean(x, dims...), x, dims))
	variance := Mean(Square(centred), dims...)
	return Mul(centred, keepDims(Rsqrt(AddScalar(variance, eps)), x, dims))
}

// scaleChannels multiplies y, which has the compute dtype, by a number for each channel and adds another.
func scaleChannels(y, gamma, beta *Tensor) *Tensor {
	if gamma != nil && y.Err() == nil && gamma.Err() == nil {
		y = Mul(y, Reshape(wide(gamma), append([]int{y.Dim(1)}, ones(len(y.Shape())-2)...)...))
	}
	if beta != nil {
		beta = wide(beta)
	}
	return addChannels(y, beta)
}
