package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// attentionSpan is one contiguous range of queries with one contiguous range of keys. Kernels support a
// single offset between queries and keys, so positions that consist of several ranges are computed range by
// range.
type attentionSpan[T floats] struct {
	kernel.Attention[T]
	whole *kernel.Attention[T]
	// batch, query and key are the indices at which the span begins.
	batch, query, key int
}

// eachSpan calls f for every pair of ranges in which some query attends to some key, in order.
func eachSpan[T floats](o attention, a *kernel.Attention[T], queries, keys []int,
	f func(x *attentionSpan[T])) {
	if len(queries) == 2 && len(keys) == 2 {
		if o.sees(queries[0], queries[1], keys[0], keys[1]) {
			x := &attentionSpan[T]{Attention: *a, whole: a}
			x.Mask.Offset = queries[0] - keys[0]
			f(x)
		}
		return
	}
	for b := range a.Batch {
		query := 0
		for i := 0; i < len(queries); i += 2 {
			key := 0
			for j := 0; j < len(keys); j += 2 {
				if o.sees(queries[i], queries[i+1], keys[j], keys[j+1]) {
					f(newSpan(a, b, [2]int{query, queries[i+1]}, [2]int{key, keys[j+1]}, queries[i]-keys[j]))
				}
				key += keys[j+1]
			}
			query += queries[i+1]
		}
	}
}

func newSpan[T floats](a *kernel.Attention[T], b int, q, k [2]int, offset int) *attentionSpan[T] {
	x := &attentionSpan[T]{Attention: *a, whole: a, batch: b, query: q[0], key: k[0]}
	x.Batch, x.SeqQ, x.SeqK, x.Mask.Offset = 1, q[1], k[1], offset
	x.Q, x.K, x.V = x.rows(a.Q, a.Dim), x.keyRows(a.K, a.Dim), x.keyRows(a.V, a.DimV)
	if m := &x.Mask; m.SegmentsQ != nil {
		m.SegmentsQ, m.SegmentsK = m.SegmentsQ[b*a.SeqQ+q[0]:][:q[1]], m.SegmentsK[b*a.SeqK+k[0]:][:k[1]]
	}
	return x
}

// rows returns the span's part of an array that belongs to queries, with width elements for each head.
func (x *attentionSpan[T]) rows(src []T, width int) []T {
	n := x.Heads * width
	return src[(x.batch*x.whole.SeqQ+x.query)*n:][:x.Batch*x.SeqQ*n]
}

// keyRows returns the span's part of an array that belongs to keys.
func (x *attentionSpan[T]) keyRows(src []T, width int) []T {
	n := x.KVHeads * width
	return src[(x.batch*x.whole.SeqK+x.key)*n:][:x.Batch*x.SeqK*n]
}

// isWhole reports whether the span includes all queries.
func (x *attentionSpan[T]) isWhole() bool {
	return x.Batch == x.whole.Batch && x.SeqQ == x.whole.SeqQ
}

// stats returns the span's part of a [batch, heads, seqQ] array: a copy unless it is all of it.
func (x *attentionSpan[T]) stats(src []T) []T {
	if src == nil || x.isWhole() {
		return src
	}
	part := make([]T, x.Heads*x.SeqQ)
	for h := range x.Heads {
		copy(part[h*x.SeqQ:(h+1)*x.SeqQ], src[(x.batch*x.Heads+h)*x.whole.SeqQ+x.query:])
	}
	return part
}

// putStats writes a part that stats returned back into the array.
func (x *attentionSpan[T]) putStats(dst, part []T) {
	if x.isWhole() {
		return
	}
	for h := range x.Heads {
		copy(dst[(x.batch*x.Heads+h)*x.whole.SeqQ+x.query:], part[h*x.SeqQ:(h+1)*x.SeqQ])
	}
}

// attendSpans accumulates attention over keys at the given positions into out and lse.
func attendSpans[T floats](env *Env, o attention, a *kernel.Attention[T], queries, keys []int, out, lse []T) {
	eachSpan(o, a, queries, keys, func(x *attentionSpan[T]) {
		stats := x.stats(lse)
		x.Resume(env.Pool, x.rows(out, x.DimV), stats)
		x.putStats(lse, stats)
	})
}

// clearAttention sets out and lse to their values before any key.
func clearAttention[T floats](out, lse []T) {
	clear(out)
	for i := range lse {
		lse[i] = T(math.Inf(-1))
	}
}

// backSpans adds the contributions of queries and keys at the given positions to the gradients.
func backSpans[T floats](env *Env, o attention, a *kernel.Attention[T], queries, keys []int,
	g kernel.AttentionGrad[T]) {
	g.Update = kernel.Accumulate
	eachSpan(o, a, queries, keys, func(x *attentionSpan[T]) {
		part := g
		part.Out, part.DOut = x.rows(g.Out, x.DimV), x.rows(g.DOut, x.DimV)
		part.LSE, part.DLSE = x.stats(g.LSE), x.stats(g.DLSE)
		part.DQ, part.DK, part.DV = x.rows(g.DQ, x.Dim), x.keyRows(g.DK, x.Dim), x.keyRows(g.DV, x.DimV)
		x.Backward(env.Pool, part)
	})
}

// spanPairs returns the number of pairs of query and key that the mask admits.
func (o attention) spanPairs(q, k array.Shape, queries, keys []int) float64 {
	n := 0.0
	for i := 0; i < len(queries); i += 2 {
		for j := 0; j < len(keys); j += 2 {
			part := o
			part.Zigzag, part.DynamicOffset, part.Offset = 0, false, queries[i]-keys[j]
			n += part.pairs(array.Shape{q[0], queries[i+1], q[2]}, array.Shape{k[0], keys[j+1]})
		}
	}
	return n
}
