package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Sequence configures context parallelism: how attention combines a sequence that is sharded over devices,
// and in which order its rows are. Except for Packed it does not change results.
type Sequence struct {
	// Context is op.ContextRing, op.ContextUlysses, or empty for the cheaper one.
	Context string
	// Zigzag, if not 0, is the number of parts of a sequence whose rows are in op.ZigzagOrder. A sequence whose
	// length does not allow it stays in its own order.
	Zigzag int
	// Packed, if set, says which tokens of a row belong to one sequence.
	Packed *Packed
}

// Packed describes rows that hold several sequences each. A token attends to its own sequence only.
type Packed struct {
	// Segments [batch, seq] has the number of each token's sequence in its row, Positions [batch, seq] its
	// position in that sequence. Both are integers, in the order of the layers' inputs.
	Segments, Positions *op.Tensor
}

// Parts returns the number of zigzag parts of a sequence of length seq, or 0 if it is in its own order.
func (s Sequence) Parts(seq int) int {
	if !op.ZigzagFits(s.Zigzag, seq) {
		return 0
	}
	return s.Zigzag
}

// Attender is an attention layer.
type Attender interface {
	// Forward computes attention within x [batch, seq, width] and to the tokens in c, which may be nil.
	Forward(x *op.Tensor, c *KVCache) *op.Tensor
	// Cache returns the shapes of a cache's keys and values for up to limit tokens.
	Cache(batch, limit int) [2]array.Shape
	// Over returns a layer with the same parameters for sequences of this configuration.
	Over(s Sequence) Attender
}
