package op

// HuberLoss returns half the squared difference of x and y, broadcast together, for differences up to delta,
// and delta·(|x−y| − delta/2) beyond. Reduction is "mean" (the default if empty), "sum" or "none". [Huber
// 1964]
func HuberLoss(x, y *Tensor, delta float64, reduction string) *Tensor {
	if !(delta > 0) {
		return refuse(x, "huber_loss", "delta is %v: want more than 0", delta)
	}
	return reduceLoss("huber_loss", huber(x, y, delta), reduction)
}

// SmoothL1Loss is HuberLoss divided by its delta, here called beta: nearly L1Loss, but smooth at 0. A beta of
// 0 is L1Loss.
func SmoothL1Loss(x, y *Tensor, beta float64, reduction string) *Tensor {
	switch {
	case beta == 0:
		return L1Loss(x, y, reduction)
	case !(beta > 0):
		return refuse(x, "smooth_l1_loss", "beta is %v: want 0 or more", beta)
	}
	return reduceLoss("smooth_l1_loss", MulScalar(huber(x, y, beta), 1/beta), reduction)
}

// huber returns near·(d − near/2), where near is the difference d clamped to [-delta, delta], so that nothing
// overflows.
func huber(x, y *Tensor, delta float64) *Tensor {
	d := Sub(wide(x), wide(y))
	near := Clamp(d, -delta, delta)
	return Mul(near, Sub(d, MulScalar(near, 0.5)))
}

// L1Loss returns |x − y|, broadcast together. Reduction is "mean" (the default if empty), "sum" or "none".
// The gradient is 0 where they are equal.
func L1Loss(x, y *Tensor, reduction string) *Tensor {
	return reduceLoss("l1_loss", Abs(Sub(wide(x), wide(y))), reduction)
}
