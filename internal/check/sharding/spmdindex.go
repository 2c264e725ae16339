package sharding

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// indexOps are the ops that gather and scatter by indices.
func indexOps() map[string]spmdOp {
	all := opTable{
		"lookup_table_v2": func(b *spmdBuild) []*op.Tensor {
			return only(op.Embedding(b.index(0),
				b.float(1)))
		},
		"embedding": func(b *spmdBuild) []*op.Tensor {
			return only(op.Embedding(b.index(0),
				b.float(1)))
		},
		"embedding_grad": func(b *spmdBuild) []*op.Tensor { return b.embeddingGrad(0, 1) },
		"c_embedding": func(b *spmdBuild) []*op.Tensor {
			return only(op.Embedding(b.index(1),
				b.float(0)))
		},
		"c_embedding_grad":    func(b *spmdBuild) []*op.Tensor { return b.embeddingGrad(1, 0) },
		"gather":              buildIndexSelect,
		"gather_grad":         buildIndexSelectGrad,
		"index_select":        buildIndexSelect,
		"index_select_grad":   buildIndexSelectGrad,
		"gather_nd":           func(b *spmdBuild) []*op.Tensor { return only(op.GatherND(b.float(0), b.index(1))) },
		"gather_nd_grad":      buildGatherNDGrad,
		"scatter":             buildScatter,
		"scatter_grad":        buildScatterGrad,
		"scatter_nd_add":      buildScatterNDAdd,
		"take_along_axis":     buildTakeAlong,
		"put_along_axis":      buildPutAlong,
		"put_along_axis_grad": buildPutAlongGrad,
		"index_put":           buildIndexPut,
		"index_put_grad":      buildIndexPutGrad,
		"one_hot": func(b *spmdBuild) []*op.Tensor {
			return only(op.OneHot(b.index(0),
				b.Attrs.int("num_classes", 1)))
		},
	}.ops()
	all["take_along_axis_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
		x := b.float(0)
		return gradients(takeAlong(x, b.index(1), b.dim("axis", x)), b.float(2), x)
	}}
	return join(all, missing("the shape of its result depends on the values: programs here have static shapes",
		"nonzero", "unique"))
}

// dim returns an attribute that is a dim of x, counted from zero.
func (b *spmdBuild) dim(name string, x *op.Tensor) int {
	d := b.Attrs.int(name, 0)
	if d < 0 {
		d += len(x.Shape())
	}
	return d
}

func (b *spmdBuild) embeddingGrad(ids, table int) []*op.Tensor {
	return pullback(op.Embedding(b.index(ids), b.zeros(array.F32, b.shape(table)...)), nil, b.float(2))[1:2]
}

func buildIndexSelect(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	if len(b.Inputs[1].Shape) == 0 { // one index drops the dim
		y := op.IndexSelect(x, b.dim("axis", x), op.Reshape(b.index(1), 1))
		return only(op.Squeeze(y, b.dim("axis", x)))
	}
	return only(op.IndexSelect(x, b.dim("axis", x), b.index(1)))
}

// buildIndexSelectGrad uses only the shape of x.
func buildIndexSelectGrad(b *spmdBuild) []*op.Tensor {
	x := b.zeros(array.F32, b.shape(0)...)
	return pullback(op.IndexSelect(x, b.dim("axis", x), b.index(1)), nil, b.float(2))[:1]
}

func buildGatherNDGrad(b *spmdBuild) []*op.Tensor {
	x := b.zeros(array.F32, b.shape(0)...)
	return gradients(op.GatherND(x, b.index(1)), b.float(2), x)
}

// fitUpdates gives the index as many positions as there are updates: the recorded shapes are not always
// consistent, and only their dims matter.
func (b *spmdBuild) fitUpdates(index, updates int) {
	if n := b.Inputs[updates].Shape[0]; len(b.Inputs[index].Shape) == 1 && b.Inputs[index].Shape[0] != n {
		b.Inputs[index].Shape = []int{n}
	}
}

func buildScatter(b *spmdBuild) []*op.Tensor {
	b.fitUpdates(1, 2)
	if b.Attrs.bool("overwrite") {
		return only(op.IndexCopy(b.float(0), 0, b.index(1), b.float(2)))
	}
	return only(op.IndexAdd(b.float(0), 0, b.index(1), b.float(2)))
}

func buildScatterNDAdd(b *spmdBuild) []*op.Tensor {
	if len(b.Inputs[1].Shape) == 1 {
		b.fitUpdates(1, 2)
		return only(op.IndexAdd(b.float(0), 0, b.index(1), b.float(2)))
	}
	return only(op.ScatterNDAdd(b.float(0), b.index(1), b.float(2)))
}

// buildScatterGrad has the operands index, updates and out_grad, and returns the gradients of x and of
// updates.
func buildScatterGrad(b *spmdBuild) []*op.Tensor {
	b.fitUpdates(0, 1)
	dy := b.float(2)
	x, updates := b.zeros(array.F32, dy.Shape()...), b.zeros(array.F32, b.shape(1)...)
	y := op.IndexAdd(x, 0, b.index(0), updates)
	if b.Attrs.bool("overwrite") {
		y = op.IndexCopy(x, 0, b.index(0), updates)
	}
	return gradients(y, dy, x, updates)
}

// takeAlong is TakeAlongDim of the part of x that index covers.
func takeAlong(x, index *op.Tensor, dim int) *op.Tensor {
	for d := range min(len(x.Shape()), len(index.Shape())) {
		if d != dim && index.Dim(d) < x.Dim(d) && index.Dim(d) != 1 {
			x = op.Narrow(x, d, 0, index.Dim(d))
		}
	}
	return op.TakeAlongDim(x, index, dim)
}

func buildTakeAlong(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	return only(takeAlong(x, b.index(1), b.dim("axis", x)))
}

func buildPutAlong(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	return only(op.PutAlongDim(x, b.dim("axis", x), b.index(1), b.float(2)))
}

// buildPutAlongGrad reads index and out_grad; only the shapes of the others matter.
func buildPutAlongGrad(b *spmdBuild) []*op.Tensor {
	x, value := b.zeros(array.F32, b.shape(0)...), b.zeros(array.F32, b.shape(2)...)
	y := op.PutAlongDim(x, b.dim("axis", x), b.index(1), value)
	return gradients(y, b.float(4), x, value)
}

// indices returns one matrix of the lists of indices from operand first up to last.
func (b *spmdBuild) indices(first, last int) *op.Tensor {
	var list []*op.Tensor
	for i := first; i < last; i++ {
		list = append(list, b.index(i))
	}
	return op.Stack(list, -1)
}

func buildIndexPut(b *spmdBuild) []*op.Tensor {
	n := len(b.Inputs) - 1
	return only(op.ScatterND(b.float(0), b.indices(1, n), b.float(n)))
}

func buildIndexPutGrad(b *spmdBuild) []*op.Tensor {
	n := len(b.Inputs) - 2
	x, value := b.zeros(array.F32, b.shape(0)...), b.zeros(array.F32, b.shape(n)...)
	return gradients(op.ScatterND(x, b.indices(1, n), value), b.float(n+1), x, value)
}

// orderOps are the ops that sort, or scan along a dim.
func orderOps() map[string]spmdOp {
	all := opTable{
		"cumsum": func(b *spmdBuild) []*op.Tensor {
			x := b.flat(b.float(0))
			return only(b.cumSum(x, b.dim("axis", x)))
		},
		"cumsum_grad": buildCumSumGrad,
		"cummax": func(b *spmdBuild) []*op.Tensor {
			return pair(op.CumMax(b.float(0),
				b.Attrs.int("axis", 0)))
		},
		"cummin": func(b *spmdBuild) []*op.Tensor {
			return pair(op.CumMin(b.float(0),
				b.Attrs.int("axis", 0)))
		},
		"cummax_grad":  func(b *spmdBuild) []*op.Tensor { return b.putBack(1, 2) },
		"cummin_grad":  func(b *spmdBuild) []*op.Tensor { return b.putBack(1, 2) },
		"argmax":       func(b *spmdBuild) []*op.Tensor { return b.argExtreme(op.ArgMax) },
		"argmin":       func(b *spmdBuild) []*op.Tensor { return b.argExtreme(op.ArgMin) },
		"argsort":      buildSort,
		"argsort_grad": func(b *spmdBuild) []*op.Tensor { return b.putBack(0, 2) },
		"topk": func(b *spmdBuild) []*op.Tensor {
			return pair(op.TopK(b.float(0), b.Attrs.int("k", 1), b.Attrs.int("axis", -1)))
		},
		"topk_grad": func(b *spmdBuild) []*op.Tensor { return b.putBack(1, 2) },
	}.ops()
	return all
}

func pair(x, y *op.Tensor) []*op.Tensor { return []*op.Tensor{x, y} }

// flat returns x as one row if the case requires it.
func (b *spmdBuild) flat(x *op.Tensor) *op.Tensor {
	if b.Attrs.bool("flatten") {
		return op.Reshape(x, x.Shape().Len())
	}
	return x
}

func (b *spmdBuild) cumSum(x *op.Tensor, dim int) *op.Tensor {
	if b.Attrs.bool("reverse") {
		return op.CumSumReverse(x, dim)
	}
	return op.CumSum(x, dim)
}

func buildCumSumGrad(b *spmdBuild) []*op.Tensor {
	x := b.zeros(array.F32, b.shape(0)...)
	flat := b.flat(x)
	return gradients(b.cumSum(flat, b.dim("axis", flat)), b.float(1), x)
}

func (b *spmdBuild) argExtreme(f func(x *op.Tensor, dim int) *op.Tensor) []*op.Tensor {
	x := b.float(0)
	flat := b.flat(x)
	y := f(flat, b.dim("axis", flat))
	switch {
	case b.Attrs.bool("flatten") && b.Attrs.bool("keepdims"):
		return only(op.Reshape(y, slices.Repeat([]int{1}, len(x.Shape()))...))
	case b.Attrs.bool("flatten"):
		return only(op.Reshape(y, 1)) // recorded with one dim
	case b.Attrs.bool("keepdims"):
		return only(op.KeepDims(y, x, b.dim("axis", x)))
	}
	return only(y)
}

func buildSort(b *spmdBuild) []*op.Tensor {
	if b.Attrs.bool("descending") {
		return pair(op.SortDescending(b.float(0), b.Attrs.int("axis", -1)))
	}
	return pair(op.Sort(b.float(0), b.Attrs.int("axis", -1)))
}

// putBack scatters the gradients of elements that were taken along a dim, by the indices.
func (b *spmdBuild) putBack(indices, grad int) []*op.Tensor {
	x := slices.IndexFunc(b.Inputs, func(t *spmdTensor) bool { return t.Name == "x" })
	if x < 0 {
		return b.refuse("no operand is named x")
	}
	zero, dy := b.zeros(array.F32, b.shape(x)...), b.float(grad)
	if !dy.Shape().Equal(b.shape(indices)) {
		// recorded for another shape: only the dims count
		b.params[grad], b.Inputs[grad].Shape = nil, b.shape(indices)
		dy = b.float(grad)
	}
	return only(op.ScatterAdd(zero, b.dim("axis", zero), b.index(indices), dy))
}
