package op

import "math"

// PoissonNLLLoss returns e^x − y·x if x is the logarithm of a rate (logs), or x − y·log(x+eps) if it is a
// rate. With full, log(y!) is added by Stirling's formula where y is more than 1.
func PoissonNLLLoss(x, y *Tensor, logs, full bool, eps float64, reduction string) *Tensor {
	x, y = wide(x), wide(y)
	if x.Err() != nil {
		return x
	}
	var loss *Tensor
	if logs {
		loss = Sub(Exp(x), Mul(y, x))
	} else {
		loss = Sub(x, Mul(y, Log(AddScalar(x, eps))))
	}
	if full && y.Err() == nil {
		above := Greater(y, Const(y, 1))
		safe := Where(above, y, Const(y, 1))
		root := MulScalar(Log(MulScalar(safe, 2*math.Pi)), 0.5)
		factorial := Add(Sub(Mul(safe, Log(safe)), safe), root)
		loss = Add(loss, Where(above, factorial, Const(y, 0)))
	}
	return reduceLoss("poisson_nll_loss", loss, reduction)
}

// GaussianNLLLoss returns (log(v) + (x−y)²/v)/2 for a variance v of at least eps; with full, log(2π)/2 is
// added.
func GaussianNLLLoss(x, y, variance *Tensor, full bool, eps float64, reduction string) *Tensor {
	v := wide(variance)
	if v.Err() != nil {
		return v
	}
	v = Add(v, StopGradient(Sub(Maximum(v, Const(v, eps)), v)))
	loss := MulScalar(Add(Log(v), Div(Square(Sub(wide(x), wide(y))), v)), 0.5)
	if full && loss.Err() == nil {
		loss = AddScalar(loss, 0.5*math.Log(2*math.Pi))
	}
	return reduceLoss("gaussian_nll_loss", loss, reduction)
}
