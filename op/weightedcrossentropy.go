package op

import "github.com/galley-ml/galley/array"

// WeightedCrossEntropy returns CrossEntropy with the losses of rows weighted by their class; weights is a
// vector with one weight for each class. The mean is weighted, over the rows that are not ignored.
func WeightedCrossEntropy(logits, labels, weights *Tensor, c CrossEntropyConfig) *Tensor {
	if logits.Err() != nil {
		return logits
	}
	return weightedLoss("cross_entropy", LogSoftmax(wide(logits), -1), labels, weights, c)
}

// WeightedNLLLoss is NLLLoss with a weight for each class.
func WeightedNLLLoss(x, labels, weights *Tensor, c CrossEntropyConfig) *Tensor {
	if x.Err() == nil && c.LabelSmoothing != 0 {
		return refuse(x, "nll_loss", "label smoothing is %v: want 0: only cross-entropy has it", c.LabelSmoothing)
	}
	return weightedLoss("nll_loss", x, labels, weights, c)
}

func weightedLoss(name string, logp, labels, weights *Tensor, c CrossEntropyConfig) *Tensor {
	for _, t := range []*Tensor{logp, labels, weights} {
		if t.Err() != nil {
			return t
		}
	}
	if err := inferLabels([]Type{logp.Type(), labels.Type()}, 2); err != nil {
		return refuse(logp, name, "%w", err)
	}
	classes := logp.Dim(-1)
	if len(weights.Shape()) != 1 || weights.Dim(0) != classes {
		return refuse(logp, name, "weights %v: want %d, one for each class", weights.Type(), classes)
	}
	ignore := -100
	if c.IgnoreIndex != nil {
		ignore = *c.IgnoreIndex
	}
	weights, logp = wide(weights), wide(logp)
	counts := NotEqual(labels, Const(labels, float64(ignore)))
	hot := LogicalAnd(Cast(OneHot(labels, classes), array.Bool), Unsqueeze(counts, -1))
	zero := Const(logp, 0)
	weighted := Where(Unsqueeze(counts, -1), Mul(logp, weights), zero)
	losses := Neg(Sum(Where(hot, weighted, zero), -1))
	if s := c.LabelSmoothing; s != 0 {
		even := MulScalar(Neg(Sum(weighted, -1)), s/float64(classes))
		losses = Add(MulScalar(losses, 1-s), even)
	}
	if c.Reduction == "" || c.Reduction == "mean" {
		return Div(Sum(losses), Sum(Where(hot, weights, Const(weights, 0))))
	}
	return reduceLoss(name, losses, c.Reduction)
}

// SoftCrossEntropy returns the cross-entropy of logits and targets that hold a probability for each class, of
// the same shape; weights, one for each class, may be nil. The mean is over the rows.
func SoftCrossEntropy(logits, targets, weights *Tensor, c CrossEntropyConfig) *Tensor {
	for _, t := range []*Tensor{logits, targets} {
		if t.Err() != nil {
			return t
		}
	}
	if !logits.Shape().Equal(targets.Shape()) || len(logits.Shape()) == 0 {
		return refuse(logits, "cross_entropy", "targets %v: want the shape of the logits %v", targets.Type(),
			logits.Type())
	}
	targets = wide(targets)
	if s := c.LabelSmoothing; s != 0 {
		targets = AddScalar(MulScalar(targets, 1-s), s/float64(logits.Dim(-1)))
	}
	terms := Mul(targets, LogSoftmax(wide(logits), -1))
	if weights != nil {
		terms = Mul(terms, wide(weights))
	}
	return reduceLoss("cross_entropy", Neg(Sum(terms, -1)), c.Reduction)
}
