package nn

import (
	"math"

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
	k, v = p.take(c.K, q.DType()), p.take(c.V, q.DType())
	if q.Dim(0) == 1 && q.Dim(1) > 1 {
		start := op.Reshape(op.Narrow(p.Positions, 1, 0, 1))
		y := op.Attention(q, k, v, op.AttentionConfig{Causal: true, Scale: h.Scale, Cap: h.Cap, Window: h.Window,
			Start: start})
		if y.Err() != nil {
			return y
		}
		return op.Reshape(y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3))
	}
	return h.attendLengths(q, k, v, p.Positions)
}

// attendLengths returns attention where each sequence's new tokens have positions [batch, seq] of their own.
// The queries that share a head of keys are rows of one product.
func (h Heads) attendLengths(q, k, v, positions *op.Tensor) *op.Tensor {
	if k.Err() != nil || v.Err() != nil {
		return op.Add(k, v)
	}
	batch, seq, keys, group := q.Dim(0), q.Dim(1), k.Dim(1), h.Queries/h.Keys
	q = op.Transpose(op.Reshape(q, batch, seq, h.Keys, group, h.Dim), 0, 2, 3, 1, 4)
	q = op.Reshape(q, batch, h.Keys, group*seq, h.Dim)
	scale := h.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(h.Dim))
	}
	scores := op.Cast(op.MatMulT(q, op.Transpose(k, 0, 2, 1, 3), false, true), array.F32)
	scores = op.MulScalar(op.Reshape(scores, batch, h.Keys, group, seq, keys), scale)
	if h.Cap != 0 {
		scores = op.MulScalar(op.Tanh(op.MulScalar(scores, 1/h.Cap)), h.Cap)
	}
	scores = op.Where(h.sees(scores, positions), scores, op.Const(scores, -1e30))
	weights := op.Reshape(op.Cast(op.Softmax(scores, -1), v.DType()), batch, h.Keys, group*seq, keys)
	y := op.MatMul(weights, op.Transpose(v, 0, 2, 1, 3))
	y = op.Transpose(op.Reshape(y, batch, h.Keys, group, seq, v.Dim(3)), 0, 3, 1, 2, 4)
	return op.Reshape(y, batch, seq, h.Queries*v.Dim(3))
}

// sees returns which keys the queries at positions see, for scores [batch, heads, group, seq, keys].
func (h Heads) sees(scores, positions *op.Tensor) *op.Tensor {
	if scores.Err() != nil {
		return scores
	}
	batch, seq := scores.Dim(0), scores.Dim(3)
	at := op.Expand(op.Reshape(positions, batch, 1, 1, seq, 1), scores.Shape()...)
	key := op.Iota(scores.Scope(), positions.DType(), scores.Shape(), 4)
	mask := op.GreaterEqual(at, key)
	if h.Window > 0 {
		mask = op.LogicalAnd(mask, op.Less(op.Sub(at, key), op.Const(at, float64(h.Window))))
	}
	return mask
}
