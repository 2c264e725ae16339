package op

// KLDivLoss returns target·(log target − x) of log probabilities x and target probabilities, broadcast
// together, 0 where a target is 0: its "mean" over elements (also if reduction is empty), its "sum", the sum
// over the size of the first dim with "batchmean", which is the divergence of Kullback and Leibler, or each
// element with "none".
func KLDivLoss(x, target *Tensor, reduction string) *Tensor {
	target = wide(target)
	zero := Equal(target, Const(target, 0))
	logs := Log(Where(zero, Const(target, 1), target))
	return klDiv(Mul(target, Sub(logs, wide(x))), x, reduction)
}

// KLDivLogLoss is like KLDivLoss with the logarithms of the targets.
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
