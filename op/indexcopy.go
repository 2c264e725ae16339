package op

// IndexCopy returns x with the slices of source, along dim, in place of those that index, a vector, names. Of
// several for one place the last counts.
func IndexCopy(x *Tensor, dim int, index, source *Tensor) *Tensor {
	for _, t := range []*Tensor{x, index, source} {
		if t.Err() != nil {
			return t
		}
	}
	d := normDim(len(x.Shape()), dim)
	if d < 0 || d >= len(source.Shape()) || len(index.Shape()) != 1 {
		return apply1(putAlongDim{Dim: d}, x, index, source)
	}
	shape := ones(len(source.Shape()))
	shape[d] = index.Dim(0)
	return PutAlongDim(x, d, Expand(Reshape(index, shape...), source.Shape()...), source)
}
