package op

// GLU returns the first half of x along dim times the sigmoid of the second. [Dauphin et al. 2016]
func GLU(x *Tensor, dim int) *Tensor {
	if x.Err() != nil {
		return x
	}
	d := normDim(len(x.Shape()), dim)
	switch {
	case d < 0 || d >= len(x.Shape()):
		return misplaced(x, "glu", dim)
	case x.Dim(d)%2 != 0:
		return refuse(x, "glu", "dim %d of %v: want an even size", dim, x.Type())
	}
	half := x.Dim(d) / 2
	return Mul(Narrow(x, d, 0, half), Sigmoid(Narrow(x, d, half, 2*half)))
}
