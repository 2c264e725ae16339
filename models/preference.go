package models

import (
	"fmt"

	"github.com/galley-ml/galley/op"
)

// LogProbs returns the log-probability [batch] of the labels of each row under a model; labels of IgnoreLabel
// are ignored.
func LogProbs(m Model, ids, labels *op.Tensor) *op.Tensor {
	if d, ok := m.(*decoder); ok {
		m, ids, labels = d.ordered(ids, labels)
	}
	return rowLogProbs(m.Forward(ids), labels)
}

func rowLogProbs(logits, labels *op.Tensor) *op.Tensor {
	losses := op.CrossEntropy(logits, labels, op.CrossEntropyConfig{Reduction: "none"})
	if losses.Err() != nil {
		return losses
	}
	return op.Neg(op.Sum(losses, 1))
}

// Scores returns LogProbs, and the number of labels of each row [batch] that greedy decoding would not have
// chosen: if it is 0, the labels are what the model generates greedily.
func Scores(m Model, ids, labels *op.Tensor) (logProbs, others *op.Tensor) {
	if d, ok := m.(*decoder); ok {
		m, ids, labels = d.ordered(ids, labels)
	}
	logits := m.Forward(ids)
	if logProbs = rowLogProbs(logits, labels); logProbs.Err() != nil {
		return logProbs, logProbs
	}
	said := op.Equal(op.Cast(op.ArgMax(logits, -1), labels.DType()), labels)
	ignored := op.Equal(labels, op.Const(labels, IgnoreLabel))
	other := op.LogicalNot(op.LogicalOr(said, ignored))
	return logProbs, op.Sum(op.Cast(other, logProbs.DType()), 1)
}

// PreferenceLoss returns the loss of direct preference optimization [Rafailov et al. 2023]: the mean over
// pairs of minus the log-sigmoid of beta times the difference between the model's and the reference's
// preference for the chosen answer. Ids and labels are [pairs, 2, seq], chosen before rejected; reference
// [pairs, 2] is LogProbs of both under the model before training.
func PreferenceLoss(m Model, ids, labels, reference *op.Tensor, beta float64) *op.Tensor {
	for _, x := range []*op.Tensor{ids, labels, reference} {
		if x.Err() != nil {
			return x
		}
	}
	s := ids.Shape()
	if len(s) != 3 || s[1] != 2 || !labels.Shape().Equal(s) || !reference.Shape().Equal(s[:2]) {
		return invalid(ids, fmt.Errorf("preferences: ids %v, labels %v, reference %v: want [pairs, 2, seq] "+
			"twice and [pairs, 2]",
			ids.Type(), labels.Type(), reference.Type()))
	}
	flat := func(x *op.Tensor) *op.Tensor { return op.Reshape(x, 2*s[0], s[2]) }
	own := LogProbs(m, flat(ids), flat(labels))
	if own.Err() != nil {
		return own
	}
	more := op.Sub(op.Reshape(own, s[0], 2), op.Cast(reference, own.DType()))
	margin := op.Sub(op.Narrow(more, 1, 0, 1), op.Narrow(more, 1, 1, 2))
	return op.Mean(op.Softplus(op.MulScalar(margin, -beta)))
}
