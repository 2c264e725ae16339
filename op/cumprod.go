package op

// CumProd is, at each place along dim, the product of all elements up to it.
func CumProd(x *Tensor, dim int) *Tensor { return prefixes(x, dim, "cumprod", Mul) }

// LogCumSumExp is, at each place along dim, the logarithm of the sum of e^x of all elements up to it.
func LogCumSumExp(x *Tensor, dim int) *Tensor { return prefixes(x, dim, "logcumsumexp", LogAddExp) }

// prefixes joins all elements up to each place along dim, by pairs that are twice as far apart each time, so
// that gradients hold where elements are 0 as well. [Hillis and Steele 1986]
func prefixes(x *Tensor, dim int, name string, join func(x, y *Tensor) *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	d := normDim(len(x.Shape()), dim)
	if d < 0 || d >= len(x.Shape()) {
		return misplaced(x, name, dim)
	}
	n := x.Dim(d)
	for far := 1; far < n; far *= 2 {
		later := join(Narrow(x, d, far, n), Narrow(x, d, 0, n-far))
		x = Concat([]*Tensor{Narrow(x, d, 0, far), later}, d)
	}
	return x
}
