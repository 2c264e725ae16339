package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Pages locates the keys and values of sequences in pools of pages that all sequences share. The same program
// then continues sequences of any length, up to the number of pages in Table.
type Pages struct {
	// Table [batch, pages] lists each sequence's pages in order.
	Table *op.Tensor
	// Positions [batch, seq] holds the positions of new tokens in their sequences. With a single sequence, they
	// are consecutive.
	Positions *op.Tensor
	// Slots [batch·seq] is where their keys and values are written: page·Tokens plus the index in the page.
	Slots *op.Tensor
	// Tokens is the number of tokens of a page.
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

// attendPages returns attend for keys and values in pages. A single sequence is ordinary attention, with an
// offset for its new tokens; several have different lengths.
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
