package op

// CumProd returns the cumulative product along dim.
func CumProd(x *Tensor, dim int) *Tensor { return prefixes(x, dim, "cumprod", Mul) }

// LogCumSumExp returns the logarithm of the cumulative sum of exponentials along dim.
func LogCumSumExp(x *Tensor, dim int) *Tensor { return prefixes(x, dim, "logcumsumexp", LogAddExp) }

// prefixes returns the prefix reductions along dim, by pairs whose distance doubles each time, so that
// gradients hold for elements of 0 as well. [Hillis and Steele 1986]
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
