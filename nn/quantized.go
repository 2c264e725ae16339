package nn

import "github.com/galley-ml/galley/op"

// QuantizedWeight holds the quantized weights of a Linear, which are not trained; see op.QuantizedLinear for
// the format.
type QuantizedWeight struct {
	// Q holds bytes, Scale a float for each group of adjacent elements in a row.
	Q, Scale *Param
	// Zero, if not nil, holds the zero point of each group; without it, that is the middle of the range.
	Zero *Param
	// Bits is 4 or 8.
	Bits, Group int
}

// Params returns all of them.
func (q *QuantizedWeight) Params() []*Param {
	if q.Zero == nil {
		return []*Param{q.Q, q.Scale}
	}
	return []*Param{q.Q, q.Scale, q.Zero}
}

// SetQuantized replaces the weights, whose value is not used from then on.
func (l *Linear) SetQuantized(q *QuantizedWeight) { l.quantized = q }

// Quantized returns the quantized weights; nil if they are floats.
func (l *Linear) Quantized() *QuantizedWeight { return l.quantized }

// product returns x times the weights alone.
func (l *Linear) product(x *op.Tensor) *op.Tensor {
	q := l.quantized
	if q == nil {
		return op.MatMulT(x, l.Weight.Value, false, true)
	}
	var zero *op.Tensor
	if q.Zero != nil {
		zero = q.Zero.Value
	}
	return op.QuantizedLinear(x, q.Q.Value, op.Cast(q.Scale.Value, x.DType()), zero, q.Bits, q.Group)
}
