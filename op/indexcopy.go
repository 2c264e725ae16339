package op

// IndexCopy returns x with the slices along dim at the positions in index, a vector, replaced by those of
// source. If several have the same position, the last one wins.
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
