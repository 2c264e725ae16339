package torchop

import (
	"slices"

	"github.com/galley-ml/galley/op"
)

// norms normalize to mean 0 and variance 1; their weights and biases are optional.
func norms() map[string]builder {
	return map[string]builder{
		"layer_norm": layerNorm,
		"rms_norm":   rmsNorm,
		"group_norm": func(a *attrs) Func {
			groups, eps := a.int("num_groups", 1), a.float("eps", 1e-5)
			return liftSome(1, 3, func(in []*op.Tensor) *op.Tensor {
				return op.GroupNorm(in[0], groups, in[1],
					in[2], eps)
			})
		},
		"instance_norm": func(a *attrs) Func {
			eps := a.float("eps", 1e-5)
			return liftSome(1, 3, func(in []*op.Tensor) *op.Tensor {
				return op.InstanceNorm(in[0], in[1], in[2],
					eps)
			})
		},
		"batch_norm": batchNorm,
		"batch_norm_inference": func(a *attrs) Func {
			eps := a.float("eps", 1e-5)
			return liftSome(3, 5, func(in []*op.Tensor) *op.Tensor {
				return op.BatchNormInference(in[0], in[1], in[2], in[3], in[4], eps)
			})
		},
		"local_response_norm": localResponseNorm,
		"normalize": func(a *attrs) Func {
			p, dim, eps := a.float("p", 2), a.dim(1), a.float("eps", 1e-12)
			return lift1(func(x *op.Tensor) *op.Tensor { return op.Normalize(x, p, dim, eps) })
		},
	}
}

// overLast returns a norm of the last dims of x together, as many as shape has; nil is one.
func overLast(x *op.Tensor, shape []int, weights []*op.Tensor,
	f func(x *op.Tensor, weights []*op.Tensor) *op.Tensor) *op.Tensor {
	if x.Err() != nil || len(shape) < 2 {
		return f(x, weights)
	}
	lead := len(x.Shape()) - len(shape)
	flat := func(t *op.Tensor) *op.Tensor {
		if t == nil {
			return nil
		}
		return op.Reshape(t, -1)
	}
	var rows []*op.Tensor
	for _, w := range weights {
		rows = append(rows, flat(w))
	}
	return op.Reshape(f(op.Flatten(x, lead, -1), rows), x.Shape()...)
}

// given returns a weight, or by default ones or zeros of the last dim of x.
func given(w, x *op.Tensor, otherwise float64) *op.Tensor {
	if w != nil || x.Err() != nil || len(x.Shape()) == 0 {
		return w
	}
	return op.Full(x.Scope(), x.DType(), x.Shape()[len(x.Shape())-1:], otherwise)
}

func layerNorm(a *attrs) Func {
	shape, eps := a.ints("normalized_shape"), a.float("eps", 1e-5)
	return liftSome(1, 3, func(in []*op.Tensor) *op.Tensor {
		return overLast(in[0], shape, in[1:], func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.LayerNorm(x, given(w[0], x, 1), given(w[1], x, 0), eps)
		})
	})
}

func rmsNorm(a *attrs) Func {
	shape, eps := a.ints("normalized_shape"), a.float("eps", 2.220446049250313e-16)
	return liftSome(1, 2, func(in []*op.Tensor) *op.Tensor {
		return overLast(in[0], shape, in[1:], func(x *op.Tensor, w []*op.Tensor) *op.Tensor {
			return op.RMSNorm(x, given(w[0], x, 1), eps)
		})
	})
}

// batchNorm normalizes by the batch's own statistics or, with five operands and without training, by running
// ones, in PyTorch's order: x, mean, variance, weight and bias.
func batchNorm(a *attrs) Func {
	eps := a.float("eps", 1e-5)
	training := a.bool("training", false)
	a.float("momentum", 0.1) // of running statistics, which are not returned
	return Func{1, 5, func(in []*op.Tensor) []*op.Tensor {
		all := append(slices.Clone(in), make([]*op.Tensor, 5-len(in))...)
		switch {
		case len(in) > 3 && !training:
			return one(op.BatchNormInference(all[0], all[1], all[2], all[3], all[4], eps))
		case len(in) > 3:
			all[1], all[2] = all[3], all[4]
		}
		y, _, _ := op.BatchNorm(all[0], all[1], all[2], eps)
		return one(y)
	}}
}

// localResponseNorm divides by a power of the mean of squares over size adjacent channels.
func localResponseNorm(a *attrs) Func {
	size, alpha, beta, k := a.int("size", 1), a.float("alpha", 1e-4), a.float("beta", 0.75), a.float("k", 1)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil || len(x.Shape()) < 3 {
			return op.Square(x)
		}
		n, c := x.Dim(0), x.Dim(1)
		squares := op.Pad(op.Reshape(op.Square(x), n, 1, c, -1), []int{0, 0, size / 2, 0}, []int{0, 0,
			(size - 1) / 2, 0}, 0)
		means := op.AvgPool2D(squares, op.PoolConfig{Kernel: []int{size, 1}, Stride: []int{1, 1}})
		by := op.AddScalar(op.MulScalar(op.Reshape(means, x.Shape()...), alpha), k)
		return op.Div(x, op.Pow(by, beta))
	})
}
