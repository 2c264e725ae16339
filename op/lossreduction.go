package op

// reduceLoss reduces the losses of all elements: "mean" (the default if empty), "sum" or "none". The loss of
// 16-bit floats is float32, so that large sums neither overflow nor lose small terms.
func reduceLoss(name string, losses *Tensor, reduction string) *Tensor {
	if losses.Err() != nil {
		return losses
	}
	switch reduction {
	case "none":
		return losses
	case "sum":
		return Sum(losses)
	case "", "mean":
		return Mean(losses)
	}
	return refuse(losses, name, "reduction is %q: want mean, sum or none", reduction)
}
