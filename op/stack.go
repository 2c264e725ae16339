package op

// Stack concatenates tensors of one shape along a new dim.
func Stack(xs []*Tensor, dim int) *Tensor {
	rows := make([]*Tensor, len(xs))
	for i, x := range xs {
		rows[i] = Unsqueeze(x, dim)
	}
	if len(xs) > 0 {
		dim = normDim(len(xs[0].Shape())+1, dim)
	}
	return Concat(rows, dim)
}
