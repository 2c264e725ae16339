package model

import (
	"fmt"

	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/evaluation"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Loss computes the scalar to minimise from a model's outputs and a batch's labels.
type Loss func(outputs, labels []*op.Tensor) *op.Tensor

// LossModel is a Model with a loss of its own, used if no other is given.
type LossModel interface {
	Model
	Loss(inputs, labels []*op.Tensor) *op.Tensor
}

// CrossEntropy returns the mean cross-entropy of the first output (logits) and the first labels. Labels of
// -100 are ignored.
func CrossEntropy(outputs, labels []*op.Tensor) *op.Tensor {
	if bad := unpaired("cross-entropy", outputs, labels); bad != nil {
		return bad
	}
	return op.CrossEntropy(outputs[0], labels[0], op.CrossEntropyConfig{})
}

// MeanSquares returns the mean squared error of the first output and the first labels.
func MeanSquares(outputs, labels []*op.Tensor) *op.Tensor {
	if bad := unpaired("mean squares", outputs, labels); bad != nil {
		return bad
	}
	return op.MSELoss(outputs[0], labels[0], "mean")
}

// Accuracy returns the metric of how often the largest logit of the first output is the label. Negative
// labels are ignored.
func Accuracy() fit.Metric {
	return fit.Metric{Name: "accuracy", Compute: func(outputs, labels []*op.Tensor) (*op.Tensor, *op.Tensor) {
		if bad := unpaired("accuracy", outputs, labels); bad != nil {
			return bad, bad
		}
		logits := outputs[0]
		best, label, count := op.ArgMax(logits, -1), labels[0], logits.DType().Compute()
		right := op.Cast(op.Equal(op.Cast(best, label.DType()), label), count)
		counts := op.Cast(op.GreaterEqual(label, op.ZerosLike(label)), count)
		return op.Sum(op.Mul(right, counts)), op.Sum(counts)
	}}
}

// unpaired returns an invalid tensor where there is no output or no labels to compare it with; otherwise nil.
func unpaired(who string, outputs, labels []*op.Tensor) *op.Tensor {
	all := append(outputs[:len(outputs):len(outputs)], labels...)
	if len(outputs) > 0 && len(labels) > 0 || len(all) == 0 {
		return nil
	}
	err := fmt.Errorf("model gave %d outputs and the batch has %d labels: want one of each or more: "+
		"batches are inputs, then labels", len(outputs), len(labels))
	return ir.Invalid(all[0].Scope(), &ir.Error{Op: who, Err: err})
}

// HasLoss reports whether a model has a loss of its own.
func HasLoss(m Model) bool {
	_, ok := ownLoss(m)
	return ok
}

// ownLoss returns a model's own loss.
func ownLoss(m Model) (LossModel, bool) {
	if p, ok := m.(*Parallel); ok {
		m = p.Model
	}
	l, ok := m.(LossModel)
	return l, ok
}

// LossOf returns the loss of a batch: inputs, then labels. A nil loss is the model's own.
func LossOf(m Model, loss Loss) func(batch []*op.Tensor) *op.Tensor {
	return func(batch []*op.Tensor) *op.Tensor {
		n := InputsOf(m, len(batch))
		if own, ok := ownLoss(m); ok && loss == nil {
			return own.Loss(batch[:n], batch[n:])
		}
		return loss(m.Forward(batch[:n]...), batch[n:])
	}
}

// Terms returns the function that an evaluation computes per batch: the loss and each metric, as a sum and
// its count.
func Terms(m Model, loss Loss, metrics []fit.Metric) func(batch []*op.Tensor) []*op.Tensor {
	return func(batch []*op.Tensor) []*op.Tensor {
		n := InputsOf(m, len(batch))
		var outputs []*op.Tensor
		if loss != nil || len(metrics) > 0 {
			outputs = m.Forward(batch[:n]...)
		}
		var l *op.Tensor
		if loss != nil {
			l = loss(outputs, batch[n:])
		} else {
			l = LossOf(m, nil)(batch)
		}
		terms, ok := evaluation.Terms(l, nn.Values(m.Params()), batch)
		for _, metric := range metrics {
			if ok {
				s, c := metric.Compute(outputs, batch[n:])
				terms = append(terms, s, c)
			}
		}
		return terms
	}
}
