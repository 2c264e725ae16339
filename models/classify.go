package models

import (
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// pooler is the vector of a sequence's first token through a layer and a tanh, as BERT classifies by.
type pooler struct {
	dense *nn.Linear
	drop  layer
}

// Forward returns [batch, width] of x [batch, seq, width].
func (p pooler) Forward(x *op.Tensor) *op.Tensor {
	return through(p.drop, op.Tanh(p.dense.Forward(firstToken{}.Forward(x))))
}

// firstToken is the vector of a sequence's first token.
type firstToken struct{}

// Forward returns [batch, width] of x [batch, seq, width].
func (firstToken) Forward(x *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Reshape(op.Narrow(x, 1, 0, 1), x.Dim(0), x.Dim(2))
}

// classLoss returns what transformers takes by the kind of labels: the cross-entropy of classes, the squared
// error of one number, or for several numbers from 0 to 1 the cross-entropy of each.
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
