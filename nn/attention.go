package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Heads configures the attention between the projections.
type Heads struct {
	// Queries and Keys are the numbers of query heads and of key-value heads; each key-value head serves
	// Queries/Keys neighbouring query heads (grouped-query attention).
	Queries, Keys int
	// Dim is the size of a head.
	Dim int
	// Scale multiplies the scores; 0 means 1/√Dim.
	Scale float64
	// Cap soft-caps the scores, see op.AttentionConfig; 0 means no cap.
	Cap float64
	// Mask selects which tokens a token attends to; the zero value is Causal.
	Mask Mask
	// Window is the sliding window: the number of tokens that a token sees, including itself; 0 means all
	// before it.
	Window int
	// RoPE returns the rotary embedding for a sequence length; nil means none.
	RoPE func(length int) op.RoPEConfig
	// Sinks [queries], if not nil, holds for each head the score of an attention sink: a virtual token without a
	// value that all tokens attend to.
	Sinks *Param
	// Dropout is applied to the attention weights in training; nil means none.
	Dropout *Dropout
	// Sequence says how sequences are split over devices and ordered; the zero value is for whole sequences.
	Sequence Sequence
}

// Mask selects which tokens a token attends to.
type Mask uint8

// The masks.
const (
	// Causal attends to the token itself and those before it.
	Causal Mask = iota
	// Everywhere attends to the whole sequence.
	Everywhere
)

// SplitHeads reshapes x [batch, seq, heads·dim] to [batch, seq, heads, dim].
func SplitHeads(x *op.Tensor, heads int) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Reshape(x, x.Dim(0), x.Dim(1), heads, x.Dim(2)/max(1, heads))
}

// zigzag returns the number of parts of the zigzag order of a sequence's rows; 0 if they are in order.
func (h Heads) zigzag(x *op.Tensor, c *KVCache) int {
	if c != nil {
		return 0
	}
	return h.Sequence.Parts(x.Dim(1))
}

// rotate applies rotary positions to x [batch, seq, heads, dim]; its rows follow those in c.
func (h Heads) rotate(x *op.Tensor, c *KVCache) *op.Tensor {
	if h.RoPE == nil || x.Err() != nil {
		return x
	}
	offset, start := c.position()
	rope := h.RoPE(offset + x.Dim(1))
	rope.Offset, rope.Start = offset, start
	if c != nil && c.Pages != nil {
		rope.Positions = c.Pages.Positions
	} else if p := h.Sequence.Packed; p != nil && c == nil {
		rope.Positions = p.Positions
	} else if parts := h.zigzag(x, c); parts > 0 {
		rope.Positions = op.ZigzagPositions(x.Scope(), parts, x.Dim(1))
	}
	return op.RoPE(x, rope)
}

// attend returns attention of queries, keys and values, each [batch, seq, heads, dim], with heads merged
// again.
func (h Heads) attend(q, k, v *op.Tensor, c *KVCache) *op.Tensor {
	if q.Err() != nil {
		return q
	}
	if c != nil && c.Pages != nil {
		return h.attendPages(q, k, v, c)
	}
	config := op.AttentionConfig{
		Causal: h.Mask == Causal, Scale: h.Scale, Cap: h.Cap, Window: h.Window,
		Context: h.Sequence.Context, Zigzag: h.zigzag(q, c),
	}
	if p := h.Sequence.Packed; p != nil && c == nil {
		config.QuerySegments, config.KeySegments = p.Segments, p.Segments
	}
	if c != nil {
		k, v = c.extend(k, v, &config)
	}
	if c == nil && h.Dropout.Active() {
		return h.attendDropping(q, k, v, config)
	}
	y, lse := op.AttentionLSE(q, k, v, config)
	y = h.sunk(y, lse)
	if c != nil {
		c.keep(h.Window)
	}
	if y.Err() != nil {
		return y
	}
	return op.Reshape(y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3))
}

// sunk rescales attention y [batch, seq, heads, dim], whose log-sum-exps are lse [batch, heads, seq], for the
// sinks.
func (h Heads) sunk(y, lse *op.Tensor) *op.Tensor {
	if h.Sinks == nil || y.Err() != nil {
		return y
	}
	sinks := op.Cast(op.Reshape(h.Sinks.Value, h.Queries, 1), lse.DType())
	part := op.Sigmoid(op.Sub(lse, sinks))
	return op.Mul(y, op.Unsqueeze(op.Cast(op.Transpose(part, 0, 2, 1), y.DType()), -1))
}

// cache returns the shapes of cached keys and values.
func (h Heads) cache(batch, limit, valueDim int) [2]array.Shape {
	return [2]array.Shape{{batch, limit, h.Keys, h.Dim}, {batch, limit, h.Keys, valueDim}}
}

// Attention is self-attention with separate projections for queries, keys and values.
type Attention struct {
	Q, K, V, O *Linear
	// QNorm and KNorm, if not nil, normalise queries and keys per head.
	QNorm, KNorm *RMSNorm
	// QWide and KWide, if not nil, normalise queries and keys over all heads.
	QWide, KWide *RMSNorm
	// QHeads and KHeads, if not nil, normalise queries and keys per head with a mean, too.
	QHeads, KHeads *HeadNorm
	// Bound, if not 0, clamps the elements of queries, keys and values to ±Bound.
	Bound float64
	Heads Heads
}

// Forward attends within x [batch, seq, width] and to the tokens in c, and appends x's keys and values to c.
// A nil c is empty and stores nothing.
func (a *Attention) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	q := normed(a.QNorm, SplitHeads(a.bounded(normed(a.QWide, a.Q.Forward(x))), a.Heads.Queries))
	k := normed(a.KNorm, SplitHeads(a.bounded(normed(a.KWide, a.K.Forward(x))), a.Heads.Keys))
	if a.QHeads != nil {
		q, k = a.QHeads.Forward(q), a.KHeads.Forward(k)
	}
	v := SplitHeads(a.bounded(a.V.Forward(x)), a.Heads.Keys)
	return a.O.Forward(a.Heads.attend(a.Heads.rotate(q, c), a.Heads.rotate(k, c), v, c))
}

func (a *Attention) bounded(x *op.Tensor) *op.Tensor {
	if a.Bound == 0 {
		return x
	}
	return op.Clamp(x, -a.Bound, a.Bound)
}

// Cache implements Attender.
func (a *Attention) Cache(batch, limit int) [2]array.Shape {
	return a.Heads.cache(batch, limit, a.Heads.Dim)
}

// normed returns x if there is no norm.
func normed(n *RMSNorm, x *op.Tensor) *op.Tensor {
	if n == nil {
		return x
	}
	return n.Forward(x)
}

// Over returns the same layer for sequences of this layout.
func (a *Attention) Over(s Sequence) Attender {
	b := *a
	b.Heads.Sequence = s
	return &b
}

// FusedAttention is self-attention with one projection matrix for queries, keys and values.
type FusedAttention struct {
	QKV, Proj Projection
	Heads     Heads
	// PerHead means that the queries, keys and values of each key-value head are stored together.
	PerHead bool
}

// Forward works like Attention.Forward.
func (a *FusedAttention) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	h := a.Heads
	qkv := a.QKV.Forward(x)
	if qkv.Err() != nil {
		return qkv
	}
	if a.PerHead {
		parts := op.Split(SplitHeads(qkv, h.Keys), -1, h.Queries/max(1, h.Keys)*h.Dim, h.Dim, h.Dim)
		q := parts[0]
		if h.Queries != h.Keys && q.Err() == nil {
			q = op.Reshape(q, q.Dim(0), q.Dim(1), h.Queries, h.Dim)
		}
		return a.Proj.Forward(h.attend(h.rotate(q, c), h.rotate(parts[1], c), parts[2], c))
	}
	parts := op.Split(qkv, -1, h.Queries*h.Dim, h.Keys*h.Dim, h.Keys*h.Dim)
	q, k, v := SplitHeads(parts[0], h.Queries), SplitHeads(parts[1], h.Keys), SplitHeads(parts[2], h.Keys)
	return a.Proj.Forward(h.attend(h.rotate(q, c), h.rotate(k, c), v, c))
}

// Over works like Attention.Over.
func (a *FusedAttention) Over(s Sequence) Attender {
	b := *a
	b.Heads.Sequence = s
	return &b
}

// Cache implements Attender.
func (a *FusedAttention) Cache(batch, limit int) [2]array.Shape {
	return a.Heads.cache(batch, limit, a.Heads.Dim)
}
