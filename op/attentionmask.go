package op

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// MaskedAttention returns Attention with a mask that broadcasts to [batch, heads, seqQ, seqK]: a boolean mask
// selects the keys that a query attends to, numbers are added to the scores. Keys that c hides stay hidden.
// It materializes all attention weights; Attention is faster if it can express the same mask.
func MaskedAttention(q, k, v, mask *Tensor, c AttentionConfig) *Tensor {
	for _, t := range []*Tensor{q, k, v, mask} {
		if t.Err() != nil {
			return t
		}
	}
	switch {
	case len(q.Shape()) != 4 || len(k.Shape()) != 4 || len(v.Shape()) != 4 || k.Dim(2) == 0 ||
		q.Dim(2)%k.Dim(2) != 0 || v.Dim(2) != k.Dim(2):
		return refuse(q, "masked_attention",
			"queries %v, keys %v, values %v: want [batch, seq, heads, dim], and heads "+
				"of queries that divide by those of keys", q.Type(), k.Type(), v.Type())
	case c.Start != nil || c.QuerySegments != nil || c.KeySegments != nil || c.Zigzag != 0:
		return refuse(q, "masked_attention",
			"a start, segments or zigzag order beside a mask: want the mask to say it")
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim(3)))
	}
	dtype := q.DType()
	scores := MulScalar(Einsum("bshd,bthd->bhst", wide(q), wide(repeatHeads(k, q.Dim(2)))), scale)
	if c.Cap != 0 {
		scores = MulScalar(Tanh(MulScalar(scores, 1/c.Cap)), c.Cap)
	}
	seen := c.seen(scores)
	if mask.DType() == array.Bool {
		seen = LogicalAnd(seen, mask)
	} else {
		scores = Add(scores, Cast(mask, scores.DType()))
		seen = LogicalAnd(seen, Greater(Cast(mask, scores.DType()), Const(scores, math.Inf(-1))))
	}
	return Cast(Einsum("bhst,bthd->bshd", softmaxOver(scores, seen), wide(repeatHeads(v, q.Dim(2)))), dtype)
}

// repeatHeads repeats each head of keys or values for the query heads that share it.
func repeatHeads(x *Tensor, heads int) *Tensor {
	b, s, h, d := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if h == heads {
		return x
	}
	wide := Expand(Unsqueeze(x, 3), b, s, h, heads/h, d)
	return Reshape(wide, b, s, heads, d)
}

// seen returns which keys the configuration lets each query attend to, in the shape of scores.
func (c AttentionConfig) seen(scores *Tensor) *Tensor {
	shape := scores.Shape()
	key := Iota(scores.Scope(), array.I32, shape, 3)
	at := AddScalar(Iota(scores.Scope(), array.I32, shape, 2), float64(c.Offset))
	seen := Equal(key, key)
	if c.Causal || c.Window > 0 {
		seen = LessEqual(key, at)
	}
	if c.Window > 0 {
		seen = LogicalAnd(seen, Greater(key, AddScalar(at, -float64(c.Window))))
	}
	return seen
}

// softmaxOver returns the softmax over the last dim of the elements where seen is true; rows without any are
// zeros.
func softmaxOver(x, seen *Tensor) *Tensor {
	least := Const(x, math.Inf(-1))
	hidden := Where(seen, x, least)
	top := StopGradient(Unsqueeze(AMax(hidden, -1), -1))
	top = Where(IsFinite(top), top, Const(top, 0))
	weights := Where(seen, Exp(Sub(Where(seen, x, Const(x, 0)), top)), Const(x, 0))
	sum := Unsqueeze(Sum(weights, -1), -1)
	return Div(weights, Where(Equal(sum, Const(sum, 0)), Const(sum, 1), sum))
}
