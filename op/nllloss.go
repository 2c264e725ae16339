package op

import (
	"github.com/galley-ml/galley/array"
)

// NLLLoss returns the negative of the element of x, log probabilities over its last dim, that each label
// selects. It is CrossEntropy for the result of LogSoftmax. c is as there, without smoothing. If all rows are
// ignored, the mean is NaN.
func NLLLoss(x, labels *Tensor, c CrossEntropyConfig) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case labels.Err() != nil:
		return labels
	case c.LabelSmoothing != 0:
		return refuse(x, "nll_loss", "label smoothing is %v: want 0: only cross-entropy has it", c.LabelSmoothing)
	}
	if err := inferLabels([]Type{x.Type(), labels.Type()}, 2); err != nil {
		return refuse(x, "nll_loss", "%w", err)
	}
	ignore := -100
	if c.IgnoreIndex != nil {
		ignore = *c.IgnoreIndex
	}
	x = wide(x)
	hot := Cast(OneHot(labels, x.Dim(-1)), array.Bool)
	counts := NotEqual(labels, Const(labels, float64(ignore)))
	picked := Sum(Where(hot, x, Const(x, 0)), -1)
	losses := Where(counts, Neg(picked), Const(x, 0))
	if c.Reduction == "" || c.Reduction == "mean" {
		return Div(Sum(losses), Sum(Cast(counts, x.DType())))
	}
	return reduceLoss("nll_loss", losses, c.Reduction)
}
