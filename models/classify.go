package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// pooler applies a linear layer and tanh to the first token's hidden state, as BERT does for classification.
type pooler struct {
	dense *nn.Linear
	drop  layer
}

// Forward returns [batch, width] of x [batch, seq, width].
func (p pooler) Forward(x *op.Tensor) *op.Tensor {
	return through(p.drop, op.Tanh(p.dense.Forward(firstToken{}.Forward(x))))
}

// firstToken selects the hidden state of a sequence's first token.
type firstToken struct{}

// Forward returns [batch, width] of x [batch, seq, width].
func (firstToken) Forward(x *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Reshape(op.Narrow(x, 1, 0, 1), x.Dim(0), x.Dim(2))
}

// tokenHead returns the head of a model for token classification or question answering: a linear layer after
// dropout.
func tokenHead(c Config, in *nn.Init, rate float64) head {
	name := "classifier"
	if c.Task == Answer {
		name = "qa_outputs"
	}
	at := in.At(name)
	return head{before: dropout(at, rate), linear: nn.NewLinear(at, c.Hidden, c.Labels)}
}

// taskLoss returns the loss of a model that does not predict tokens.
func (m *decoder) taskLoss(logits, labels *op.Tensor) *op.Tensor {
	switch m.config.Task {
	case ClassifyTokens:
		return op.CrossEntropy(logits, labels, op.CrossEntropyConfig{})
	case Answer:
		return answerLoss(logits, labels)
	}
	return m.classLoss(logits, labels)
}

// answerLoss returns the mean of the cross-entropies of the answers' first and last positions.
func answerLoss(logits, labels *op.Tensor) *op.Tensor {
	if logits.Err() != nil || labels.Err() != nil {
		return op.Add(logits, labels)
	}
	if len(labels.Shape()) != 2 || labels.Dim(1) != 2 {
		return invalid(labels, fmt.Errorf("labels: got shape %v, want [batch, 2], where answers begin and end",
			labels.Shape()))
	}
	batch, seq := logits.Dim(0), logits.Dim(1)
	place := op.Maximum(labels, op.Const(labels, 0))
	place = op.Where(op.Less(place, op.Const(place, float64(seq))), place, op.Const(place, IgnoreLabel))
	var sum *op.Tensor
	for i := range 2 {
		end := op.Reshape(op.Narrow(logits, 2, i, i+1), batch, seq)
		at := op.Reshape(op.Narrow(place, 1, i, i+1), batch)
		loss := op.CrossEntropy(end, at, op.CrossEntropyConfig{})
		if sum != nil {
			loss = op.Add(sum, loss)
		}
		sum = loss
	}
	return op.MulScalar(sum, 0.5)
}

// classLoss returns the loss that transformers chooses by the kind of labels: the cross-entropy of classes,
// the squared error of one number, or the binary cross-entropy of several numbers from 0 to 1.
func (m *decoder) classLoss(logits, labels *op.Tensor) *op.Tensor {
	if logits.Err() != nil || labels.Err() != nil {
		return op.Add(logits, labels)
	}
	if labels.DType().IsInt() && m.config.Labels > 1 {
		return op.CrossEntropy(logits, labels, op.CrossEntropyConfig{})
	}
	labels = op.Cast(labels, logits.DType())
	if m.config.Labels == 1 {
		labels = op.Reshape(labels, logits.Shape()...)
		return op.Mean(op.Square(op.Sub(logits, labels)))
	}
	return op.Mean(op.Sub(op.Softplus(logits), op.Mul(logits, labels)))
}
