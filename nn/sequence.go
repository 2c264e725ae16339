package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Sequence is how a sequence that devices share is met and ordered. It changes no number, only who computes
// what.
type Sequence struct {
	// Context is how attention meets it: op.ContextRing, op.ContextUlysses, or empty for whatever costs least.
	Context string
	// Zigzag, where it is not 0, is how many parts the sequence has whose rows are in op.ZigzagOrder. A sequence
	// that it does not fit is in its own order.
	Zigzag int
	// Packed, where not nil, says which tokens of a row belong together. It changes numbers.
	Packed *Packed
}

// Packed is rows that hold several sequences each: a token sees those of its own sequence only.
type Packed struct {
	// Segments [batch, seq] number the sequences of a row, Positions [batch, seq] count from 0 in each. Both are
	// integers, in the order of the rows that layers are given.
	Segments, Positions *op.Tensor
}

// Parts returns how many parts a sequence of a length has in zigzag order; 0 is that it is in its own order.
func (s Sequence) Parts(seq int) int {
	if !op.ZigzagFits(s.Zigzag, seq) {
		return 0
	}
	return s.Zigzag
}

// Attender is a layer of attention.
type Attender interface {
	// Forward attends within x [batch, seq, width], and to what c holds; a nil c holds nothing.
	Forward(x *op.Tensor, c *KVCache) *op.Tensor
	// Cache returns the shapes of the keys and values that a cache for up to limit tokens holds.
	Cache(batch, limit int) [2]array.Shape
	// Over returns the same layer, with the same parameters, for sequences of this layout.
	Over(s Sequence) Attender
}
