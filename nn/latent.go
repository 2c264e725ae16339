package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// LatentAttention is multi-head latent attention (MLA) [DeepSeek-AI 2024]: keys and values of all heads are
// projected from one short latent vector per token, and a rotary part of the key is shared by all heads.
type LatentAttention struct {
	// QDown and QNorm are nil if queries are not compressed; QUp then takes the hidden states themselves.
	QDown *Linear
	QNorm *RMSNorm
	QUp   *Linear
	// KVDown computes the latent vector of size Rank and the rotary part of the key.
	KVDown *Linear
	KVNorm *RMSNorm
	KVUp   *Linear
	O      *Linear
	// Plain is the size of a head's part without rotary embedding (the rest of Heads.Dim has it), Value the
	// size of a head's values.
	Rank, Plain, Value int
	Heads              Heads
}

// Forward works like Attention.Forward.
func (a *LatentAttention) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	k, v := a.keys(x, c)
	return a.O.Forward(a.Heads.attend(a.queries(x, c), k, v, c))
}

func (a *LatentAttention) queries(x *op.Tensor, c *KVCache) *op.Tensor {
	if a.QDown != nil {
		x = a.QNorm.Forward(a.QDown.Forward(x))
	}
	q := SplitHeads(a.QUp.Forward(x), a.Heads.Queries)
	if q.Err() != nil {
		return q
	}
	plain, turned := op.Narrow(q, 3, 0, a.Plain), op.Narrow(q, 3, a.Plain, a.Heads.Dim)
	return op.Concat([]*op.Tensor{plain, a.Heads.rotate(turned, c)}, 3)
}

func (a *LatentAttention) keys(x *op.Tensor, c *KVCache) (k, v *op.Tensor) {
	down := a.KVDown.Forward(x)
	if down.Err() != nil {
		return down, down
	}
	short, turned := op.Narrow(down, 2, 0, a.Rank), op.Narrow(down, 2, a.Rank, down.Dim(2))
	up := SplitHeads(a.KVUp.Forward(a.KVNorm.Forward(short)), a.Heads.Keys)
	if up.Err() != nil {
		return up, up
	}
	turned = a.Heads.rotate(SplitHeads(turned, 1), c)
	turned = op.Expand(turned, up.Dim(0), up.Dim(1), up.Dim(2), turned.Dim(3))
	k = op.Concat([]*op.Tensor{op.Narrow(up, 3, 0, a.Plain), turned}, 3)
	return k, op.Narrow(up, 3, a.Plain, up.Dim(3))
}

// Over works like Attention.Over.
func (a *LatentAttention) Over(s Sequence) Attender {
	b := *a
	b.Heads.Sequence = s
	return &b
}

// Cache implements Attender.
func (a *LatentAttention) Cache(batch, limit int) [2]array.Shape {
	return a.Heads.cache(batch, limit, a.Value)
}
