package op

// Joiner is an op that, applied to several values of one operand with the others the same, may be applied
// once to these values joined, its result then being split: products that share a side.
type Joiner interface {
	// Join returns which operand that is, along which of its dims values are joined, and along which the
	// result is split.
	Join(in []Type) (operand, dim, result int, ok bool)
}

// Join holds for a matrix that a whole batch of rows shares.
func (o matmul) Join(in []Type) (operand, dim, result int, ok bool) {
	if o.TransX || len(in[1].Shape) != 2 {
		return 0, 0, 0, false
	}
	dim = 1
	if o.TransY {
		dim = 0
	}
	return 1, dim, len(in[0].Shape) - 1, true
}
