package op

// AddN returns the sum of one or more tensors, broadcast together.
func AddN(xs ...*Tensor) *Tensor {
	sum := xs[0]
	for _, x := range xs[1:] {
		sum = Add(sum, x)
	}
	return sum
}
