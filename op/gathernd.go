package op

// GatherND returns slices of x. The last dim of index holds k numbers each, a position in the first k dims of
// x; the result has the other dims of index, followed by the remaining dims of x.
func GatherND(x, index *Tensor) *Tensor {
	p, bad := places(x, index)
	if bad != nil {
		return bad
	}
	return Reshape(IndexSelect(p.rows, 0, p.at), append(p.lead, p.rest...)...)
}

// ScatterNDAdd returns x with each slice of updates added at the position that the last dim of index holds,
// as in GatherND.
func ScatterNDAdd(x, index, updates *Tensor) *Tensor {
	return scatterND(x, index, updates, func(x *Tensor, at, source *Tensor) *Tensor {
		return IndexAdd(x, 0, at,
			source)
	})
}

// ScatterND returns x with the slices at the positions in the last dim of index replaced by those of updates.
// If several updates have the same position, the last one wins.
func ScatterND(x, index, updates *Tensor) *Tensor {
	return scatterND(x, index, updates, func(x *Tensor, at, source *Tensor) *Tensor {
		return IndexCopy(x, 0, at,
			source)
	})
}

func scatterND(x, index, updates *Tensor, write func(x, at, source *Tensor) *Tensor) *Tensor {
	p, bad := places(x, index)
	if bad != nil {
		return bad
	}
	if updates.Err() != nil {
		return updates
	}
	want := append(append([]int{}, p.lead...), p.rest...)
	if !updates.Shape().Equal(want) {
		return refuse(x, "scatter_nd", "updates %v: want %v", updates.Type(), want)
	}
	source := Reshape(updates, append([]int{p.at.Dim(0)}, p.rest...)...)
	return Reshape(write(p.rows, p.at, source), x.Shape()...)
}

// ndPlaces is an operand as rows, and the row numbers that an index of several numbers each selects.
type ndPlaces struct {
	rows, at   *Tensor
	lead, rest []int
}

func places(x, index *Tensor) (*ndPlaces, *Tensor) {
	switch {
	case x.Err() != nil:
		return nil, x
	case index.Err() != nil:
		return nil, index
	}
	if len(index.Shape()) == 1 && len(x.Shape()) == 1 && index.Dim(0) != 1 { // a vector of positions in a vector
		index = Unsqueeze(index, -1)
	}
	last := len(index.Shape()) - 1
	if last < 0 || index.Dim(last) < 1 || index.Dim(last) > len(x.Shape()) {
		return nil, refuse(x, "gather_nd", "index %v: want between 1 and %d numbers in its last dim", index.Type(),
			len(x.Shape()))
	}
	k := index.Dim(last)
	p := &ndPlaces{lead: index.Shape()[:last].Clone(), rest: x.Shape()[k:].Clone()}
	p.rows = Reshape(x, append([]int{x.Shape()[:k].Len()}, p.rest...)...)
	for d := range k {
		part := Narrow(index, last, d, d+1)
		if p.at == nil {
			p.at = part
			continue
		}
		p.at = Add(Mul(p.at, Const(p.at, float64(x.Dim(d)))), part)
	}
	p.at = Reshape(p.at, index.Shape()[:last].Len())
	return p, nil
}
