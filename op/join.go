package op

// Joiner is implemented by ops that can be merged if they differ in one operand only: applied once to the
// concatenation of these operands, the result is then split. Products that share one side are an example.
type Joiner interface {
	// Join returns the operand that may differ, the dim along which its values are concatenated, and the dim
	// along which the result is split.
	Join(in []Type) (operand, dim, result int, ok bool)
}

// Join applies to a weight matrix that is shared by the whole batch.
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
