package nn

import "github.com/galley-ml/galley/op"

// Heads is what an attention does between its projections.
type Heads struct {
	// Queries and Keys are the numbers of heads; each head of keys and values serves Queries/Keys neighbouring ones.
	Queries, Keys int
	// Dim is the size of a head.
	Dim int
	// Scale multiplies the scores; 0 means 1/√Dim.
	Scale float64
	// Window is how many tokens, its own included, a token sees; 0 is all before it.
	Window int
	// RoPE is how queries and keys turn by position, but for the position itself; nil is not at all.
	RoPE *op.RoPEConfig
	// Sequence is how a sequence that devices share is met and ordered; the zero value leaves it as it is.
	Sequence Sequence
}

// split is x [batch, seq, heads·dim] as [batch, seq, heads, dim].
func (h Heads) split(x *op.Tensor, heads int) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Reshape(x, x.Dim(0), x.Dim(1), heads, h.Dim)
}

// attend is causal attention of queries, keys and values, each [batch, seq, heads, dim], with heads joined again.
func (h Heads) attend(q, k, v *op.Tensor, c *KVCache) *op.Tensor {
	if q.Err() != nil {
		return q
	}
	zigzag := 0
	if c == nil {
		zigzag = h.Sequence.Parts(q.Dim(1))
	}
	if h.RoPE != nil {
		rope := *h.RoPE
		rope.Offset, rope.Start = c.position()
		if zigzag > 0 {
			rope.Positions = op.ZigzagPositions(q.Scope(), zigzag, q.Dim(1))
		}
		q, k = op.RoPE(q, rope), op.RoPE(k, rope)
	}
	config := op.AttentionConfig{Causal: true, Scale: h.Scale, Window: h.Window, Context: h.Sequence.Context, Zigzag: zigzag}
	if c != nil {
		k, v = c.extend(k, v, &config)
	}
	y := op.Attention(q, k, v, config)
	if c != nil {
		c.keep(h.Window)
	}
	if y.Err() != nil {
		return y
	}
	return op.Reshape(y, y.Dim(0), y.Dim(1), h.Queries*h.Dim)
}

// Attention is causal self-attention with a matrix each for queries, keys and values.
type Attention struct {
	Q, K, V, O *Linear
	// QNorm and KNorm, where not nil, normalise each head's queries and keys.
	QNorm, KNorm *RMSNorm
	Heads        Heads
}

// Forward attends within x [batch, seq, width], and to what c holds, which then holds x's keys and values too. A nil
// c is empty and keeps nothing.
func (a *Attention) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	q := a.Heads.split(a.Q.Forward(x), a.Heads.Queries)
	k := a.Heads.split(a.K.Forward(x), a.Heads.Keys)
	v := a.Heads.split(a.V.Forward(x), a.Heads.Keys)
	if a.QNorm != nil {
		q = a.QNorm.Forward(q)
	}
	if a.KNorm != nil {
		k = a.KNorm.Forward(k)
	}
	return a.O.Forward(a.Heads.attend(q, k, v, c))
}

// Over is the same layer for sequences that lie so.
func (a *Attention) Over(s Sequence) Attender {
	b := *a
	b.Heads.Sequence = s
	return &b
}

// FusedAttention is causal self-attention with one matrix for queries, keys and values, as GPT-2 has it.
type FusedAttention struct {
	QKV, Proj *Dense
	Heads     Heads
}

// Forward is as Attention's.
func (a *FusedAttention) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	h := a.Heads
	qkv := a.QKV.Forward(x)
	if qkv.Err() != nil {
		return qkv
	}
	parts := op.Split(qkv, -1, h.Queries*h.Dim, h.Keys*h.Dim, h.Keys*h.Dim)
	q, k, v := h.split(parts[0], h.Queries), h.split(parts[1], h.Keys), h.split(parts[2], h.Keys)
	return a.Proj.Forward(h.attend(q, k, v, c))
}

// Over is as Attention's.
func (a *FusedAttention) Over(s Sequence) Attender {
	b := *a
	b.Heads.Sequence = s
	return &b
}
