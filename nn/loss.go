package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Losses are means over all elements, or over the rows of the batch where they say so.

// BCEWithLogits is the binary cross-entropy of targets between 0 and 1 with the sigmoid of logits, computed without the
// sigmoid so that it is finite for all of them.
func BCEWithLogits(logits, targets *op.Tensor) *op.Tensor {
	// softplus(z) − z·t is −t·log σ(z) − (1−t)·log(1−σ(z)).
	return op.Mean(op.Sub(op.Softplus(logits), op.Mul(logits, targets)))
}

// BCE is the binary cross-entropy of targets with probabilities. Logarithms are at least −100, as in PyTorch.
func BCE(probabilities, targets *op.Tensor) *op.Tensor {
	log := func(p *op.Tensor) *op.Tensor { return op.Maximum(op.Log(p), op.Const(p, -100)) }
	one := op.OnesLike(probabilities)
	yes := op.Mul(targets, log(probabilities))
	no := op.Mul(op.Sub(one, targets), log(op.Sub(one, probabilities)))
	return op.Neg(op.Mean(op.Add(yes, no)))
}

// NLL is minus the mean of the log probabilities [rows, classes] that the labels [rows] have.
func NLL(logProbabilities, labels *op.Tensor) *op.Tensor {
	picked := op.TakeAlongDim(logProbabilities, op.Unsqueeze(labels, -1), -1)
	return op.Neg(op.Mean(picked))
}

// KLDiv is the mean over rows of the divergence of the target probabilities from log probabilities, both [rows, classes].
// A target of 0 adds nothing.
func KLDiv(logProbabilities, targets *op.Tensor) *op.Tensor {
	if targets.Err() != nil {
		return targets
	}
	zero := op.ZerosLike(targets)
	present := op.Greater(targets, zero)
	safe := op.Where(present, targets, op.OnesLike(targets))
	terms := op.Mul(targets, op.Sub(op.Log(safe), logProbabilities))
	total := op.Sum(op.Where(present, terms, zero))
	return op.MulScalar(total, 1/float64(max(1, targets.Dim(0))))
}

// Huber is half the squared error where it is below delta, and grows in a straight line beyond it.
func Huber(x, y *op.Tensor, delta float64) *op.Tensor {
	d := op.Abs(op.Sub(x, y))
	square := op.MulScalar(op.Square(d), 0.5)
	line := op.MulScalar(op.AddScalar(d, -delta/2), delta)
	return op.Mean(op.Where(op.LessEqual(d, op.Const(d, delta)), square, line))
}

// Contrastive is the loss of pairs: row i of x belongs to row i of y [rows, width] and to no other. Rows are compared by
// the cosine of their angle over a temperature, in both directions, as CLIP does. [Radford et al. 2021]
func Contrastive(x, y *op.Tensor, temperature float64) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	scores := op.MulScalar(op.MatMulT(unit(x), unit(y), false, true), 1/temperature)
	labels := op.Iota(x.Scope(), array.I32, array.Shape{x.Dim(0)}, 0)
	across := op.CrossEntropy(scores, labels, op.CrossEntropyConfig{})
	back := op.CrossEntropy(op.Transpose(scores, 1, 0), labels, op.CrossEntropyConfig{})
	return op.MulScalar(op.Add(across, back), 0.5)
}

// unit is the rows of x at length 1.
func unit(x *op.Tensor) *op.Tensor {
	length := op.Sqrt(op.AddScalar(op.Sum(op.Square(x), -1), 1e-12))
	return op.Div(x, op.Unsqueeze(length, -1))
}
