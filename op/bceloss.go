package op

// A probability of 0 for what happened costs -leastLog, not infinity, with the slope of a logarithm at
// 1/steepest.
const (
	leastLog = -100
	steepest = 1e12
)

// BCELoss returns the binary cross-entropy of probabilities p and targets y between 0 and 1, of one shape:
// its "mean" (also if reduction is empty), its "sum", or each element with "none". Logarithms are at least
// -100, and that of 0 has a finite slope, so that training can leave it. BCEWithLogitsLoss is better
// conditioned where probabilities come from a sigmoid.
func BCELoss(p, y *Tensor, reduction string) *Tensor {
	p, y = wide(p), wide(y)
	one := Const(p, 1)
	hit, miss := Mul(y, boundedLog(p)), Mul(Sub(one, y), boundedLog(Sub(one, p)))
	return reduceLoss("bce_loss", Neg(Add(hit, miss)), reduction)
}

// boundedLog returns log p, or leastLog where that is less.
func boundedLog(p *Tensor) *Tensor {
	zero := Equal(p, Const(p, 0))
	logs := Log(Where(zero, Const(p, 1), p))
	least := Const(p, leastLog)
	return Where(zero, Add(least, MulScalar(p, steepest)), Maximum(logs, least))
}

// BCEWithLogitsLoss returns BCELoss of sigmoid(x), computed without taking the logarithm of what a sigmoid
// rounds to 0.
func BCEWithLogitsLoss(x, y *Tensor, reduction string) *Tensor {
	x, y = wide(x), wide(y)
	miss := Mul(Sub(Const(x, 1), y), x)
	return reduceLoss("bce_with_logits_loss", Add(miss, Softplus(Neg(x))), reduction)
}
