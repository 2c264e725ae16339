package op

import "math"

// Log2 returns the logarithm to base 2 of each element.
func Log2(x *Tensor) *Tensor { return scaledLog(x, math.Log2E) }

// Log10 returns the logarithm to base 10 of each element.
func Log10(x *Tensor) *Tensor { return scaledLog(x, math.Log10E) }

func scaledLog(x *Tensor, scale float64) *Tensor {
	if x.Err() != nil {
		return x
	}
	return MulScalar(Log(x), scale)
}

// Exp2 returns 2 to the power of each element.
func Exp2(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Exp(MulScalar(x, math.Ln2))
}
