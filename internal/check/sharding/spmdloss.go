package sharding

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// lossOps returns normalizations, softmaxes and losses.
func lossOps() map[string]spmdOp {
	return opTable{
		"softmax": func(b *spmdBuild) []*op.Tensor {
			return only(op.Softmax(
				b.float(0), b.Attrs.int("axis", -1)))
		},
		"log_softmax": func(b *spmdBuild) []*op.Tensor {
			return only(op.LogSoftmax(
				b.float(0), b.Attrs.int("axis", -1)))
		},
		"softmax_grad": func(b *spmdBuild) []*op.Tensor {
			return b.softmaxGrad(
				op.Softmax)
		},
		"log_softmax_grad": func(b *spmdBuild) []*op.Tensor {
			return b.softmaxGrad(
				op.LogSoftmax)
		},
		"cross_entropy_with_softmax":               buildCrossEntropy,
		"cross_entropy_with_softmax_grad":          buildCrossEntropyGrad,
		"c_softmax_with_cross_entropy":             buildCrossEntropy,
		"c_softmax_with_multi_label_cross_entropy": buildMultiLabel,
		"layer_norm":          buildLayerNorm,
		"layer_norm_grad":     buildLayerNormGrad,
		"fused_rms_norm":      buildRMSNorm,
		"fused_rms_norm_grad": buildRMSNormGrad,
		"group_norm": func(b *spmdBuild) []*op.Tensor {
			return b.channelNorm(
				b.groups())
		},
		"group_norm_grad": func(b *spmdBuild) []*op.Tensor {
			return b.channelNormGrad(
				b.groups())
		},
		"instance_norm": func(b *spmdBuild) []*op.Tensor {
			return b.channelNorm(
				b.Inputs[0].Shape[1])
		},
		"instance_norm_grad": func(b *spmdBuild) []*op.Tensor {
			return b.channelNormGrad(
				b.Inputs[0].Shape[1])
		},
		"batch_norm":      buildBatchNorm,
		"batch_norm_grad": buildBatchNormGrad,
		"label_smooth":    buildLabelSmooth,
		"label_smooth_grad": func(b *spmdBuild) []*op.Tensor {
			return only(op.MulScalar(b.float(0), 1-b.Attrs.float("epsilon", 0)))
		},
	}.ops()
}

func (b *spmdBuild) softmaxGrad(f func(x *op.Tensor, dim int) *op.Tensor) []*op.Tensor {
	y := f(b.zeros(array.F32, b.shape(0)...), b.Attrs.int("axis", -1))
	return pullback(y, b.float(0), b.float(1))[:1]
}

// losses returns the loss at each position along dim, which is kept with size one, and the softmax, both in
// primitive ops, so that they can be split by classes.
func losses(x, target *op.Tensor, dim int) (softmax, loss *op.Tensor) {
	top := op.KeepDims(op.AMax(op.StopGradient(x), dim), x, dim)
	shifted := op.Sub(x, top)
	e := op.Exp(shifted)
	sum := op.KeepDims(op.Sum(e, dim), x, dim)
	picked := op.KeepDims(op.Sum(op.Mul(target, shifted), dim), x, dim)
	return op.Div(e, sum), op.Sub(op.Log(sum), picked)
}

// target returns the weight of each class: the label itself if it is soft, else a one-hot vector. The
// recorded shapes of labels are not always consistent with the dim of classes, and are adapted.
func (b *spmdBuild) target(label int, x *op.Tensor, dim int) *op.Tensor {
	shape := x.Shape().Clone()
	if b.Attrs.bool("soft_label") {
		b.Inputs[label].Shape = shape
		return b.float(label)
	}
	shape[dim] = 1
	b.Inputs[label].Shape = shape
	classes := op.Iota(b.builder, array.I64, x.Shape(), dim)
	return op.Cast(op.Equal(classes, b.index(label)), x.DType())
}

func buildCrossEntropy(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	dim := b.dim("axis", x)
	if !b.Attrs.has("axis") {
		dim = len(x.Shape()) - 1
	}
	return pair(losses(x, b.target(1, x, dim), dim))
}

// buildCrossEntropyGrad has the operands label, softmax and loss_grad.
func buildCrossEntropyGrad(b *spmdBuild) []*op.Tensor {
	y := b.float(1)
	dim := b.dim("axis", y)
	return only(op.Mul(op.Sub(y, b.target(0, y, dim)), b.float(2)))
}

// buildMultiLabel weighs several labels of each row; a class counts as often as it is named.
func buildMultiLabel(b *spmdBuild) []*op.Tensor {
	x, labels, weights := b.float(0), b.index(1), b.float(2)
	last := len(x.Shape()) - 1
	var target *op.Tensor
	classes := op.Iota(b.builder, array.I64, x.Shape(), last)
	for i := range labels.Dim(last) {
		hit := op.Cast(op.Equal(classes, op.Narrow(labels, last, i, i+1)), x.DType())
		hit = op.Mul(hit, op.Narrow(weights, last, i, i+1))
		if target != nil {
			hit = op.Add(target, hit)
		}
		target = hit
	}
	return pair(losses(x, target, last))
}

// rowsFrom returns x with all dims from the first normalized one merged.
func (b *spmdBuild) rowsFrom(x *op.Tensor) *op.Tensor {
	begin := b.Attrs.int("begin_norm_axis", len(x.Shape())-1)
	if begin == len(x.Shape())-1 {
		return x
	}
	return op.Flatten(x, begin, -1)
}

// feature returns a vector of parameters, nil if there is none.
func (b *spmdBuild) feature(i int) *op.Tensor {
	if !b.given(i) || array.Shape(b.Inputs[i].Shape).Len() == 0 {
		return nil
	}
	p := b.float(i)
	if len(p.Shape()) > 1 {
		return op.Flatten(p, 0, -1)
	}
	return p
}

func buildLayerNorm(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	y := op.LayerNorm(b.rowsFrom(x), b.feature(1), b.feature(2), b.Attrs.float("epsilon", 1e-5))
	return b.withStats(y, x)
}

// withStats returns y in the shape of x, and what else its op returns.
func (b *spmdBuild) withStats(y, x *op.Tensor) []*op.Tensor {
	if y.Err() != nil {
		return only(y)
	}
	rest := y.Node().Out()[1:]
	if !y.Shape().Equal(x.Shape()) {
		y = op.Reshape(y, x.Shape()...)
	}
	return append(only(y), rest...)
}

func buildLayerNormGrad(b *spmdBuild) []*op.Tensor {
	x, gamma, beta := b.float(0), b.float(1), b.float(2)
	y := op.LayerNorm(b.rowsFrom(x), b.feature(1), b.feature(2), b.Attrs.float("epsilon", 1e-5))
	if y.Err() != nil {
		return only(y)
	}
	stats := []*op.Tensor{b.float(3), b.float(4)}
	return b.normGrad(y, b.float(5), stats, x, gamma, beta)
}

// normGrad returns the gradients of a norm, given its statistics, in the shapes of xs.
func (b *spmdBuild) normGrad(y, dy *op.Tensor, stats []*op.Tensor, xs ...*op.Tensor) []*op.Tensor {
	if !y.Shape().Equal(dy.Shape()) {
		dy = op.Reshape(dy, y.Shape()...)
	}
	n := y.Node()
	outs, grads := append(only(y), stats...), make([]*op.Tensor, len(n.Out()))
	if !slices.EqualFunc(outs, n.Out(), func(p, q *op.Tensor) bool { return p.Shape().Equal(q.Shape()) }) {
		outs = n.Out()
	}
	grads[0] = dy
	got := n.Op().(op.Op).VJP(n.In(), outs, grads)
	for i, x := range xs {
		if x != nil && got[i] != nil && !got[i].Shape().Equal(x.Shape()) {
			got[i] = op.Reshape(got[i], x.Shape()...)
		}
	}
	return got[:len(xs)]
}

func buildRMSNorm(b *spmdBuild) []*op.Tensor {
	x := b.float(0)
	return b.withStats(op.RMSNorm(x, b.feature(1), b.Attrs.float("epsilon", 1e-6)), x)
}

func buildRMSNormGrad(b *spmdBuild) []*op.Tensor {
	x, gamma := b.float(0), b.float(1)
	y := op.RMSNorm(x, gamma, b.Attrs.float("epsilon", 1e-6))
	if y.Err() != nil {
		return only(y)
	}
	return b.normGrad(y, b.float(3), []*op.Tensor{b.float(2)}, x, gamma)
}

func (b *spmdBuild) groups() int { return max(1, b.Attrs.int("groups", 1)) }

// channelNorm returns a group norm: in as many groups as there are channels, an instance norm.
func (b *spmdBuild) channelNorm(groups int) []*op.Tensor {
	return only(op.GroupNorm(b.float(0), groups, b.feature(1), b.feature(2), b.Attrs.float("epsilon", 1e-5)))
}

func (b *spmdBuild) channelNormGrad(groups int) []*op.Tensor {
	x, gamma, beta := b.float(0), b.feature(1), b.feature(2)
	y := op.GroupNorm(x, groups, gamma, beta, b.Attrs.float("epsilon", 1e-5))
	return gradients(y, b.float(len(b.Inputs)-1), x, gamma, beta)
}

// buildBatchNorm has the operands x, mean, variance, scale and bias; the running statistics are only updated
// for the next step.
func buildBatchNorm(b *spmdBuild) []*op.Tensor {
	y, mean, variance := op.BatchNorm(b.float(0), b.feature(3), b.feature(4), b.Attrs.float("epsilon", 1e-5))
	return []*op.Tensor{y, op.Add(b.float(1), mean), op.Add(b.float(2), variance), mean, variance, nil}
}

func buildBatchNormGrad(b *spmdBuild) []*op.Tensor {
	x, gamma, beta := b.float(0), b.feature(1), b.feature(2)
	y, _, _ := op.BatchNorm(x, gamma, beta, b.Attrs.float("epsilon", 1e-5))
	return gradients(y, b.float(len(b.Inputs)-1), x, gamma, beta)
}

// buildLabelSmooth distributes part of each label's weight by the prior, or evenly.
func buildLabelSmooth(b *spmdBuild) []*op.Tensor {
	x, e := b.float(0), b.Attrs.float("epsilon", 0)
	kept := op.MulScalar(x, 1-e)
	if !b.given(1) {
		return only(op.AddScalar(kept, e/float64(max(1, x.Dim(-1)))))
	}
	return only(op.Add(kept, op.MulScalar(b.float(1), e)))
}
