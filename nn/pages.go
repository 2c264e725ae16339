package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Pages says where the keys and values of sequences lie: in pools of pages that all sequences share. The same
// program then continues sequences of any lengths, up to as many pages as Table has.
type Pages struct {
	// Table [batch, pages] is each sequence's pages in order.
	Table *op.Tensor
	// Positions [batch, seq] is where new tokens stand in their sequences. Where there is one sequence, they
	// follow each other.
	Positions *op.Tensor
	// Slots [batch·seq] is where their keys and values go: page·Tokens and the place in the page.
	Slots *op.Tensor
	// Tokens is how many tokens a page holds.
	Tokens int
}

// put writes new rows [batch, seq, heads, dim] into a pool [slots, heads, dim].
func (p *Pages) put(pool, x *op.Tensor) *op.Tensor {
	if pool.Err() != nil || x.Err() != nil {
		return x
	}
	rows := op.Reshape(x, x.Dim(0)*x.Dim(1), x.Dim(2), x.Dim(3))
	return op.IndexCopy(pool, 0, p.Slots, op.Cast(rows, pool.DType()))
}

// take returns the rows of all pages of each sequence, [batch, pages·Tokens, heads, dim].
func (p *Pages) take(pool *op.Tensor, as array.DType) *op.Tensor {
	if pool.Err() != nil {
		return pool
	}
	slots, heads, dim := pool.Dim(0), pool.Dim(1), pool.Dim(2)
	batch, pages := p.Table.Dim(0), p.Table.Dim(1)
	whole := op.Reshape(pool, slots/p.Tokens, p.Tokens, heads, dim)
	rows := op.IndexSelect(whole, 0, op.Reshape(p.Table, batch*pages))
	return op.Cast(op.Reshape(rows, batch, pages*p.Tokens, heads, dim), as)
}

// attendPages returns attend for keys and values in pages. A single sequence is attention like any other,
// from where its new tokens begin; several have lengths of their own.
func (h Heads) attendPages(q, k, v *op.Tensor, c *KVCache) *op.Tensor {
	p := c.Pages
	c.K, c.V = p.put(c.K, k), p.put(c.V, v)
	if q.Err() != nil {
		return q
	}
	if q.Dim(0) > 1 || q.Dim(1) == 1 {
		return joinHeads(op.PagedAttention(q, c.K, c.V, p.Table, p.Positions,
			op.PagedAttentionConfig{Tokens: p.Tokens, Scale: h.Scale, Cap: h.Cap, Window: h.Window}))
	}
	start := op.Reshape(op.Narrow(p.Positions, 1, 0, 1))
	return joinHeads(op.Attention(q, p.take(c.K, q.DType()), p.take(c.V, q.DType()),
		op.AttentionConfig{Causal: true, Scale: h.Scale, Cap: h.Cap, Window: h.Window, Start: start}))
}

// joinHeads returns the heads of each token as one row.
func joinHeads(y *op.Tensor) *op.Tensor {
	if y.Err() != nil {
		return y
	}
	return op.Reshape(y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3))
}
