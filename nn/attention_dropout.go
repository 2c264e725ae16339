package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// attendDropping is like attend, computed by its parts with dropout of the weights: it materializes them,
// which the fused op does not.
func (h Heads) attendDropping(q, k, v *op.Tensor, c op.AttentionConfig) *op.Tensor {
	heads := func(x *op.Tensor) *op.Tensor { return op.Transpose(h.repeat(x), 0, 2, 1, 3) }
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(h.Dim))
	}
	scores := op.MulScalar(op.MatMulT(heads(q), heads(k), false, true), scale)
	if c.Cap != 0 {
		scores = op.MulScalar(op.Tanh(op.MulScalar(scores, 1/c.Cap)), c.Cap)
	}
	if c.Causal {
		scores = op.Where(seen(q, c), scores, op.Const(scores, -1e30))
	}
	if c.QuerySegments != nil {
		scores = op.Where(together(scores, c), scores, op.Const(scores, -1e30))
	}
	y := op.Transpose(op.MatMul(h.dropped(op.Softmax(scores, -1), c), heads(v)), 0, 2, 1, 3)
	if h.Sinks != nil {
		y = h.sunk(y, op.LogSumExp(scores, -1))
	}
	return op.Reshape(y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3))
}

// dropped returns weights [batch, heads, queries, keys] with dropout.
func (h Heads) dropped(weights *op.Tensor, c op.AttentionConfig) *op.Tensor {
	if c.Zigzag > 0 && weights.Err() == nil {
		return h.Dropout.zigzag(weights, c.Zigzag, 2, 3)
	}
	return h.Dropout.Forward(weights)
}

// repeat repeats keys or values for all query heads.
func (h Heads) repeat(x *op.Tensor) *op.Tensor {
	n := x.Dim(2)
	if n == h.Queries {
		return x
	}
	wide := op.Expand(op.Unsqueeze(x, 3), x.Dim(0), x.Dim(1), n, h.Queries/n, x.Dim(3))
	return op.Reshape(wide, x.Dim(0), x.Dim(1), h.Queries, x.Dim(3))
}

// seen returns which keys each query of a sequence attends to.
func seen(q *op.Tensor, c op.AttentionConfig) *op.Tensor {
	n := q.Dim(1)
	at := func(dim int) *op.Tensor { return op.Iota(q.Scope(), array.I32, array.Shape{n, n}, dim) }
	if c.Zigzag > 0 {
		at = func(dim int) *op.Tensor {
			shape := []int{1, 1}
			shape[dim] = n
			return op.Expand(op.Reshape(op.ZigzagPositions(q.Scope(), c.Zigzag, n), shape...), n, n)
		}
	}
	mask := op.GreaterEqual(at(0), at(1))
	if c.Window > 0 {
		near := op.Less(op.Sub(at(0), at(1)), op.Const(at(0), float64(c.Window)))
		mask = op.LogicalAnd(mask, near)
	}
	return mask
}

// together returns which keys belong to a query's own sequence, for scores [batch, heads, queries, keys].
func together(scores *op.Tensor, c op.AttentionConfig) *op.Tensor {
	b, q, k := scores.Dim(0), scores.Dim(2), scores.Dim(3)
	own := func(x *op.Tensor, shape ...int) *op.Tensor { return op.Expand(op.Reshape(x, shape...), b, 1, q, k) }
	same := op.Equal(own(c.QuerySegments, b, 1, q, 1), own(c.KeySegments, b, 1, 1, k))
	return op.Expand(same, scores.Shape()...)
}
