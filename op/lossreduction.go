package op

// reduceLoss returns the losses of all elements as asked: their "mean" (also if reduction is empty), their
// "sum", or each one with "none". The loss of 16-bit floats is float32, so that sums of many neither overflow
// nor lose what is small.
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
