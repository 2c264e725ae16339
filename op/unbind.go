package op

// Unbind returns the slices of x along dim, each without that dim; none if the dim has size 0.
func Unbind(x *Tensor, dim int) []*Tensor {
	if x.Err() != nil {
		return []*Tensor{x}
	}
	d := normDim(len(x.Shape()), dim)
	if d < 0 || d >= len(x.Shape()) {
		return []*Tensor{misplaced(x, "unbind", dim)}
	}
	if x.Dim(d) == 0 {
		return nil
	}
	var parts []*Tensor
	for _, p := range Chunk(x, d, x.Dim(d)) {
		parts = append(parts, Squeeze(p, d))
	}
	return parts
}
