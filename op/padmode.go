package op

// PadReflect pads x by reflection at the outermost elements, which are not repeated; low and high are the
// numbers of elements along each dim.
func PadReflect(x *Tensor, low, high []int) *Tensor {
	return padBy(x, "pad_reflect", low, high, 1, func(x *Tensor, d, n, lo, hi int) (before, after *Tensor) {
		return Flip(Narrow(x, d, 1, lo+1), d), Flip(Narrow(x, d, n-1-hi, n-1), d)
	})
}

// PadCircular pads x by wrapping around.
func PadCircular(x *Tensor, low, high []int) *Tensor {
	return padBy(x, "pad_circular", low, high, 0, func(x *Tensor, d, n, lo, hi int) (before, after *Tensor) {
		return Narrow(x, d, n-lo, n), Narrow(x, d, 0, hi)
	})
}

// PadReplicate pads x by repeating the outermost elements.
func PadReplicate(x *Tensor, low, high []int) *Tensor {
	repeated := func(edge *Tensor, d, n int) *Tensor {
		shape := edge.Shape().Clone()
		shape[d] = n
		return Expand(edge, shape...)
	}
	return padBy(x, "pad_replicate", low, high, -1, func(x *Tensor, d, n, lo, hi int) (before, after *Tensor) {
		return repeated(Narrow(x, d, 0, 1), d, lo), repeated(Narrow(x, d, n-1, n), d, hi)
	})
}

// padBy pads x with what edges returns, before and after it along each dim. Padding is at most the dim's size
// minus spared; a negative spared means no limit.
func padBy(x *Tensor, name string, low, high []int, spared int,
	edges func(x *Tensor, d, n, lo, hi int) (before, after *Tensor)) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(low) != len(x.Shape()) || len(high) != len(x.Shape()) {
		return refuse(x, name, "low %v, high %v: want one number for each dim of %v", low, high, x.Type())
	}
	for d := range low {
		n, lo, hi := x.Dim(d), low[d], high[d]
		if lo == 0 && hi == 0 {
			continue
		}
		if lo < 0 || hi < 0 || n < 1 || spared >= 0 && max(lo, hi) > n-spared {
			return refuse(x, name, "dim %d of %v by %d and %d: want padding from 0 to what the dim holds", d, x.Type(),
				lo, hi)
		}
		before, after := edges(x, d, n, lo, hi)
		x = Concat([]*Tensor{before, x, after}, d)
	}
	return x
}
