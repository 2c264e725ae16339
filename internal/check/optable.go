package check

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

func (a opAttrs) elementCases() map[string]tensors {
	return map[string]tensors{
		"gelu":  lift1(func(x *op.Tensor) *op.Tensor { return op.GELU(x, a.Approximate) }),
		"pow":   lift1(func(x *op.Tensor) *op.Tensor { return op.Pow(x, a.Exponent) }),
		"where": lift3(op.Where),
		"clamp": lift1(func(x *op.Tensor) *op.Tensor {
			return op.Clamp(x, orElse(a.Min, math.Inf(-1)), orElse(a.Max, math.Inf(1)))
		}),
		"tril":    lift1(func(x *op.Tensor) *op.Tensor { return op.Tril(x, a.Diagonal) }),
		"triu":    lift1(func(x *op.Tensor) *op.Tensor { return op.Triu(x, a.Diagonal) }),
		"one_hot": lift1(func(x *op.Tensor) *op.Tensor { return op.OneHot(x, a.NumClasses) }),
	}
}

func orElse(x *float64, otherwise float64) float64 {
	if x == nil {
		return otherwise
	}
	return *x
}

// reductionCases fold dims away and, where asked, put them back as ones.
func (a opAttrs) reductionCases() map[string]tensors {
	table := map[string]tensors{}
	for name, f := range map[string]func(x *op.Tensor, dims ...int) *op.Tensor{
		"sum": op.Sum, "mean": op.Mean, "amax": op.AMax, "amin": op.AMin, "prod": op.Prod, "logsumexp": op.LogSumExp,
		"any": op.AnyOf, "all": op.AllOf,
		"var": a.variance(),
	} {
		table[name] = lift1(func(x *op.Tensor) *op.Tensor { return a.keep(f(x, a.Dim...), x) })
	}
	table["norm"] = lift1(func(x *op.Tensor) *op.Tensor { return a.keep(op.Norm(x, float64(a.P), a.Dim...), x) })
	table["argmax"] = lift1(func(x *op.Tensor) *op.Tensor { return a.keep(op.ArgMax(x, a.Dim.first(-1)), x) })
	table["argmin"] = lift1(func(x *op.Tensor) *op.Tensor { return a.keep(op.ArgMin(x, a.Dim.first(-1)), x) })
	table["cumsum"] = lift1(func(x *op.Tensor) *op.Tensor { return op.CumSum(x, a.Dim.first(-1)) })
	table["cummax"] = both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return op.CumMax(x, a.Dim.first(-1)) })
	table["cummin"] = both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return op.CumMin(x, a.Dim.first(-1)) })
	return table
}

func (a opAttrs) variance() func(x *op.Tensor, dims ...int) *op.Tensor {
	if a.Unbiased {
		return op.SampleVar
	}
	return op.Var
}

func (a opAttrs) keep(y, x *op.Tensor) *op.Tensor {
	if !a.KeepDim {
		return y
	}
	return op.KeepDims(y, x, a.Dim...)
}

func (a opAttrs) shapeCases() map[string]tensors {
	return map[string]tensors{
		"slice":  lift1(func(x *op.Tensor) *op.Tensor { return op.Slice(x, a.Start, a.End, a.Step) }),
		"concat": liftAll(func(in []*op.Tensor) *op.Tensor { return op.Concat(in, a.Dim.first(0)) }),
		"stack":  liftAll(func(in []*op.Tensor) *op.Tensor { return op.Stack(in, a.Dim.first(0)) }),
		"split": {1, 1, func(in []*op.Tensor) []*op.Tensor {
			return op.Split(in[0], a.Dim.first(0), a.Sizes...)
		}},
		"transpose": lift1(func(x *op.Tensor) *op.Tensor { return op.Transpose(x, a.Perm...) }),
		"reshape":   lift1(func(x *op.Tensor) *op.Tensor { return op.Reshape(x, a.Shape...) }),
		"expand":    lift1(func(x *op.Tensor) *op.Tensor { return op.Expand(x, a.Shape...) }),
		"tile":      lift1(func(x *op.Tensor) *op.Tensor { return op.Tile(x, a.Reps...) }),
		"pad":       lift1(func(x *op.Tensor) *op.Tensor { return op.Pad(x, a.Low, a.High, a.Value) }),
		"flip":      lift1(func(x *op.Tensor) *op.Tensor { return op.Flip(x, a.Dim...) }),
		"roll":      lift1(func(x *op.Tensor) *op.Tensor { return op.Roll(x, a.Shift, a.Dim) }),
		"sort": both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
			if a.Descending {
				return op.SortDescending(x, a.Dim.first(-1))
			}
			return op.Sort(x, a.Dim.first(-1))
		}),
		"topk": both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return op.TopK(x, a.K, a.Dim.first(-1)) }),
	}
}

// both returns a function with two results: values and where they were.
func both(f func(x *op.Tensor) (values, indices *op.Tensor)) tensors {
	return tensors{1, 1, func(in []*op.Tensor) []*op.Tensor {
		values, indices := f(in[0])
		return []*op.Tensor{values, indices}
	}}
}

func (a opAttrs) indexCases() map[string]tensors {
	return map[string]tensors{
		"embedding":      lift2(op.Embedding),
		"take_along_dim": lift2(func(x, i *op.Tensor) *op.Tensor { return op.TakeAlongDim(x, i, a.Dim.first(0)) }),
		"gather":         lift2(func(x, i *op.Tensor) *op.Tensor { return op.TakeAlongDim(x, i, a.Dim.first(0)) }),
		"index_select":   lift2(func(x, i *op.Tensor) *op.Tensor { return op.IndexSelect(x, a.Dim.first(0), i) }),
		"index_add":      lift3(func(x, i, y *op.Tensor) *op.Tensor { return op.IndexAdd(x, a.Dim.first(0), i, y) }),
		"scatter_add":    lift3(func(x, i, y *op.Tensor) *op.Tensor { return op.ScatterAdd(x, a.Dim.first(0), i, y) }),
		"matmul": lift2(func(x, y *op.Tensor) *op.Tensor {
			return op.MatMulT(x, y, a.TransposeA,
				a.TransposeB)
		}),
		"einsum": liftAll(func(in []*op.Tensor) *op.Tensor { return op.Einsum(a.Equation, in...) }),
		"conv1d": a.conv(op.Conv1D),
		"conv2d": a.conv(op.Conv2D),
		"conv3d": a.conv(op.Conv3D),

		"conv_transpose1d": a.conv(op.ConvTranspose1D),
		"conv_transpose2d": a.conv(op.ConvTranspose2D),
		"conv_transpose3d": a.conv(op.ConvTranspose3D),

		"max_pool1d": a.pool(op.MaxPool1D),
		"max_pool2d": a.pool(op.MaxPool2D),
		"max_pool3d": a.pool(op.MaxPool3D),
		"avg_pool1d": a.pool(op.AvgPool1D),
		"avg_pool2d": a.pool(op.AvgPool2D),
		"avg_pool3d": a.pool(op.AvgPool3D),
	}
}

func (a opAttrs) conv(f func(x, w, bias *op.Tensor, c op.ConvConfig) *op.Tensor) tensors {
	return tensors{2, 3, func(in []*op.Tensor) []*op.Tensor {
		var bias *op.Tensor
		if len(in) == 3 {
			bias = in[2]
		}
		return one(f(in[0], in[1], bias, op.ConvConfig{
			Stride: a.Stride, Padding: a.Padding, Dilation: a.Dilation, OutputPadding: a.OutputPadding, Groups: a.Groups}))
	}}
}

func (a opAttrs) pool(f func(x *op.Tensor, c op.PoolConfig) *op.Tensor) tensors {
	return lift1(func(x *op.Tensor) *op.Tensor {
		return f(x, op.PoolConfig{Kernel: a.Kernel, Stride: a.Stride, Padding: a.Padding})
	})
}

func (a opAttrs) layerCases() map[string]tensors {
	return map[string]tensors{
		"softmax":     lift1(func(x *op.Tensor) *op.Tensor { return op.Softmax(x, a.Dim.first(-1)) }),
		"log_softmax": lift1(func(x *op.Tensor) *op.Tensor { return op.LogSoftmax(x, a.Dim.first(-1)) }),
		"layer_norm":  lift3(func(x, g, b *op.Tensor) *op.Tensor { return op.LayerNorm(x, g, b, a.Eps) }),
		"rms_norm":    lift2(func(x, g *op.Tensor) *op.Tensor { return op.RMSNorm(x, g, a.Eps) }),
		"group_norm": lift3(func(x, g, b *op.Tensor) *op.Tensor {
			return op.GroupNorm(x, a.NumGroups, g, b, a.Eps)
		}),
		"instance_norm": lift3(func(x, g, b *op.Tensor) *op.Tensor { return op.InstanceNorm(x, g, b, a.Eps) }),
		"batch_norm": lift3(func(x, g, b *op.Tensor) *op.Tensor {
			y, _, _ := op.BatchNorm(x, g, b, a.Eps)
			return y
		}),
		"batch_norm_inference": {5, 5, func(in []*op.Tensor) []*op.Tensor {
			return one(op.BatchNormInference(in[0], in[1], in[2], in[3], in[4], a.Eps))
		}},
		"attention": lift3(func(q, k, v *op.Tensor) *op.Tensor {
			return op.Attention(q, k, v, op.AttentionConfig{Causal: a.Causal, Scale: a.Scale, Window: a.Window})
		}),
		"rope": lift1(func(x *op.Tensor) *op.Tensor {
			return op.RoPE(x,
				op.RoPEConfig{Theta: a.Theta, Style: a.Style})
		}),
	}
}

func (a opAttrs) lossCases() map[string]tensors {
	return map[string]tensors{
		"mse_loss": lift2(func(x, y *op.Tensor) *op.Tensor { return op.MSELoss(x, y, a.Reduction) }),
		"l1_loss":  lift2(func(x, y *op.Tensor) *op.Tensor { return op.L1Loss(x, y, a.Reduction) }),
		"huber_loss": lift2(func(x, y *op.Tensor) *op.Tensor {
			return op.HuberLoss(x, y, a.Delta,
				a.Reduction)
		}),
		"smooth_l1_loss": lift2(func(x, y *op.Tensor) *op.Tensor {
			return op.SmoothL1Loss(x, y, a.Beta,
				a.Reduction)
		}),
		"binary_cross_entropy": lift2(func(p, y *op.Tensor) *op.Tensor {
			return op.BCELoss(p, y, a.Reduction)
		}),
		"binary_cross_entropy_with_logits": lift2(func(x, y *op.Tensor) *op.Tensor {
			return op.BCEWithLogitsLoss(x, y, a.Reduction)
		}),
		"kl_div": lift2(func(x, y *op.Tensor) *op.Tensor {
			if a.LogTarget {
				return op.KLDivLogLoss(x, y, a.Reduction)
			}
			return op.KLDivLoss(x, y, a.Reduction)
		}),
		"nll_loss": lift2(func(x, labels *op.Tensor) *op.Tensor { return op.NLLLoss(x, labels, a.crossEntropy()) }),
		"cross_entropy": lift2(func(x, labels *op.Tensor) *op.Tensor {
			return op.CrossEntropy(x, op.Cast(labels, array.I32), a.crossEntropy())
		}),
	}
}

func (a opAttrs) crossEntropy() op.CrossEntropyConfig {
	return op.CrossEntropyConfig{Reduction: a.Reduction, IgnoreIndex: a.IgnoreIndex,
		LabelSmoothing: a.LabelSmoothing}
}
