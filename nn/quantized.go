package nn

import "github.com/galley-ml/galley/op"

// QuantizedWeight is the weights of a Linear as small integers, which training leaves as they are; see
// op.QuantizedLinear for how they are stored.
type QuantizedWeight struct {
	// Q is bytes, Scale a float for each group of neighbours in a row.
	Q, Scale *Param
	// Zero, where not nil, is the integer of each group that means 0; without it that is the middle.
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

// SetQuantized puts integers in the place of the weights, whose value is not used from then on.
func (l *Linear) SetQuantized(q *QuantizedWeight) { l.quantized = q }

// Quantized returns the integers that stand for the weights; nil where they are floats.
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
