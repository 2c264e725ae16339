package op

// The loss of probability 0 for the true class is bounded by -leastLog, and its slope is that of the
// logarithm at 1/steepest.
const (
	leastLog = -100
	steepest = 1e12
)

// BCELoss returns the binary cross-entropy of probabilities p and targets y between 0 and 1, of one shape.
// Reduction is "mean" (the default if empty), "sum" or "none". Logarithms are clamped at -100, and the
// logarithm of 0 has a finite slope, so that training can recover from it. Use BCEWithLogitsLoss if
// probabilities come from a sigmoid; it is better conditioned.
func BCELoss(p, y *Tensor, reduction string) *Tensor {
	p, y = wide(p), wide(y)
	one := Const(p, 1)
	hit, miss := Mul(y, boundedLog(p)), Mul(Sub(one, y), boundedLog(Sub(one, p)))
	return reduceLoss("bce_loss", Neg(Add(hit, miss)), reduction)
}

// boundedLog returns log p, but at least leastLog.
func boundedLog(p *Tensor) *Tensor {
	zero := Equal(p, Const(p, 0))
	logs := Log(Where(zero, Const(p, 1), p))
	least := Const(p, leastLog)
	return Where(zero, Add(least, MulScalar(p, steepest)), Maximum(logs, least))
}

// BCEWithLogitsLoss returns BCELoss of sigmoid(x) without taking the logarithm of a sigmoid that was rounded
// to 0.
func BCEWithLogitsLoss(x, y *Tensor, reduction string) *Tensor {
	x, y = wide(x), wide(y)
	miss := Mul(Sub(Const(x, 1), y), x)
	return reduceLoss("bce_with_logits_loss", Add(miss, Softplus(Neg(x))), reduction)
}
