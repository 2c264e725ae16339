package nn

import "github.com/galley-ml/galley/op"

// MultiHeadAttention attends from one sequence to another, or to itself, as in encoders and encoder-decoder
// models. Attention is the variant for language models with caches.
type MultiHeadAttention struct {
	Q, K, V, O *Linear
	Heads      int
	// Causal masks the tokens after a token's own position.
	Causal bool
}

// NewMultiHeadAttention makes a layer whose queries, keys and values have the given width, split into heads.
func NewMultiHeadAttention(in *Init, width, heads int) *MultiHeadAttention {
	return &MultiHeadAttention{Heads: heads, Q: NewLinear(in.At("q"), width, width),
		K: NewLinear(in.At("k"), width, width),
		V: NewLinear(in.At("v"), width, width), O: NewLinear(in.At("o"), width, width)}
}

// Forward attends from x [batch, seq, width] to memory [batch, length, width]. Segments, if not nil, are
// segment ids [batch, seq] and [batch, length]: a token only sees tokens with its own id, which also masks
// padding.
func (a *MultiHeadAttention) Forward(x, memory, segments, memorySegments *op.Tensor) *op.Tensor {
	q, k := SplitHeads(a.Q.Forward(x), a.Heads), SplitHeads(a.K.Forward(memory), a.Heads)
	v := SplitHeads(a.V.Forward(memory), a.Heads)
	y := op.Attention(q, k, v, op.AttentionConfig{Causal: a.Causal, QuerySegments: segments,
		KeySegments: memorySegments})
	if y.Err() != nil {
		return y
	}
	return a.O.Forward(op.Reshape(y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3)))
}
