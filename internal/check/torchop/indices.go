package torchop

import "github.com/galley-ml/galley/op"

// indices returns ops that gather or scatter by an index operand.
func indices() map[string]builder {
	gather := func(a *attrs) Func {
		a.never("sparse_grad")
		dim := a.dim(0)
		return lift2(func(x, i *op.Tensor) *op.Tensor { return op.TakeAlongDim(x, i, dim) })
	}
	return map[string]builder{
		"embedding":      embedding,
		"take_along_dim": gather,
		"gather":         gather,
		"index_select": func(a *attrs) Func {
			dim := a.dim(0)
			return lift2(func(x, i *op.Tensor) *op.Tensor { return op.IndexSelect(x, dim, i) })
		},
		"index_add":   indexAdd,
		"index_copy":  written(op.IndexCopy),
		"index_fill":  indexFill,
		"scatter":     scatter,
		"scatter_add": written(op.ScatterAdd),
		"take": func(*attrs) Func {
			return lift2(func(x, i *op.Tensor) *op.Tensor {
				if i.Err() != nil {
					return i
				}
				picked := op.IndexSelect(op.Reshape(x, -1), 0, op.Reshape(i, -1))
				return op.Reshape(picked, i.Shape()...)
			})
		},
		"one_hot": func(a *attrs) Func {
			n := a.int("num_classes", -1)
			return lift1(func(x *op.Tensor) *op.Tensor { return op.OneHot(x, n) })
		},
	}
}

// written returns f(x, dim, index, source).
func written(f func(x *op.Tensor, dim int, index, source *op.Tensor) *op.Tensor) builder {
	return func(a *attrs) Func {
		dim := a.dim(0)
		return lift3(func(x, i, y *op.Tensor) *op.Tensor { return f(x, dim, i, y) })
	}
}

func embedding(a *attrs) Func {
	a.never("sparse", "scale_grad_by_freq", "max_norm")
	if !a.has("padding_idx") {
		delete(a.raw, "padding_idx")
		return lift2(op.Embedding)
	}
	pad := a.int("padding_idx", 0)
	return lift2(func(ids, table *op.Tensor) *op.Tensor {
		if ids.Err() != nil || table.Err() != nil {
			return op.Embedding(ids, table)
		}
		if pad < 0 {
			pad += table.Dim(0)
		}
		rows := op.Embedding(ids, table)
		still := op.Unsqueeze(op.Equal(ids, op.Const(ids, float64(pad))), len(ids.Shape()))
		return op.Where(still, op.StopGradient(rows), rows)
	})
}

func indexAdd(a *attrs) Func {
	dim, alpha := a.dim(0), a.float("alpha", 1)
	return lift3(func(x, i, y *op.Tensor) *op.Tensor {
		if alpha != 1 {
			y = op.MulScalar(y, alpha)
		}
		return op.IndexAdd(x, dim, i, y)
	})
}

func indexFill(a *attrs) Func {
	dim, value := a.dim(0), a.float("value", 0)
	return lift2(func(x, i *op.Tensor) *op.Tensor {
		if x.Err() != nil || i.Err() != nil {
			return op.IndexSelect(x, dim, i)
		}
		return op.IndexCopy(x, dim, i, op.AddScalar(op.ZerosLike(op.IndexSelect(x, dim, i)), value))
	})
}

// scatter writes elements, or one number, at the indices, or adds them.
func scatter(a *attrs) Func {
	dim, how, number := a.dim(0), a.oneOf("reduce", "", "add", "sum"), a.has("value")
	value := a.float("value", 0)
	put := op.PutAlongDim
	if how != "" {
		put = op.ScatterAdd
	}
	return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
		x, i, y := in[0], in[1], in[2]
		if number && y == nil && x.Err() == nil && i.Err() == nil {
			y = op.Full(x.Scope(), x.DType(), i.Shape(), value)
		}
		if y == nil {
			return op.TakeAlongDim(x, i, dim)
		}
		return put(x, dim, i, y)
	})
}
