package random

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// parts holds the inputs of losses: logits, labels, the hidden state before the head and the head's weights.
type parts struct{ z, y, x, w *op.Tensor }

// entropy returns the mean cross-entropy of rows that count.
func (p parts) entropy() *op.Tensor { return op.CrossEntropy(p.z, p.y, op.CrossEntropyConfig{}) }

// each returns the losses of rows, and which of them count.
func (p parts) each() (losses, mask *op.Tensor) {
	losses = op.CrossEntropy(p.z, p.y, op.CrossEntropyConfig{Reduction: "none"})
	return losses, op.Cast(op.GreaterEqual(p.y, op.ZerosLike(p.y)), losses.DType())
}

// wide returns a tensor in the dtype of losses.
func wide(x *op.Tensor) *op.Tensor { return op.Cast(x, x.DType().Compute()) }

// losses are typical losses of users. Each is a sum over rows, except for what all rows share.
var losses = []struct {
	name string
	of   func(p parts) *op.Tensor
}{
	{"mean", parts.entropy},
	{"sum", func(p parts) *op.Tensor {
		return op.CrossEntropy(p.z, p.y,
			op.CrossEntropyConfig{Reduction: "sum"})
	}},
	{"twice", func(p parts) *op.Tensor { return op.MulScalar(p.entropy(), 2) }},
	{"cast", func(p parts) *op.Tensor { return op.Cast(p.entropy(), array.F64) }},
	{"z-loss", func(p parts) *op.Tensor {
		loss, lse := op.CrossEntropyLSE(p.z, p.y, op.CrossEntropyConfig{})
		return op.Add(loss, op.MulScalar(op.Mean(op.Square(lse)), 0.1))
	}},
	{"decay", func(p parts) *op.Tensor {
		return op.Add(p.entropy(),
			op.MulScalar(op.Sum(op.Square(wide(p.w))), 0.05))
	}},
	{"over a number", func(p parts) *op.Tensor { l, _ := p.each(); return op.Div(op.Sum(l), op.Const(l, 3)) }},
	{"over rows", func(p parts) *op.Tensor {
		l, _ := p.each()
		return op.MulScalar(op.Sum(l), 1/float64(p.y.Shape().Len()))
	}},
	{"masked", func(p parts) *op.Tensor {
		l, m := p.each()
		return op.Div(op.Sum(op.Mul(l, m)), op.Maximum(op.Sum(m), op.Const(m, 1)))
	}},
	{"squares", func(p parts) *op.Tensor { return op.Mean(op.Square(wide(p.z))) }},
	{"two", func(p parts) *op.Tensor {
		return op.Sub(p.entropy(), op.MulScalar(op.Mean(op.Tanh(wide(p.x))), 0.3))
	}},
}
