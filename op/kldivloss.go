package op

// KLDivLoss returns target·(log target − x) for log probabilities x and target probabilities, broadcast
// together; 0 where a target is 0. Reduction is "mean" over elements (the default if empty), "sum",
// "batchmean", the sum divided by the size of the first dim, which is the Kullback-Leibler divergence, or
// "none".
func KLDivLoss(x, target *Tensor, reduction string) *Tensor {
	target = wide(target)
	zero := Equal(target, Const(target, 0))
	logs := Log(Where(zero, Const(target, 1), target))
	return klDiv(Mul(target, Sub(logs, wide(x))), x, reduction)
}

// KLDivLogLoss is like KLDivLoss with targets given as log probabilities.
func KLDivLogLoss(x, logTarget *Tensor, reduction string) *Tensor {
	logTarget = wide(logTarget)
	return klDiv(Mul(Exp(logTarget), Sub(logTarget, wide(x))), x, reduction)
}

func klDiv(losses, x *Tensor, reduction string) *Tensor {
	if reduction != "batchmean" || losses.Err() != nil {
		return reduceLoss("kl_div_loss", losses, reduction)
	}
	return Div(Sum(losses), Const(losses, float64(x.Dim(0))))
}
