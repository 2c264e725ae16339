package kernel

import (
	"math"
	"unsafe"
)

// Attention is softmax(Scale·QKᵀ)·V for every batch element and head. Tensors
// are laid out [batch, seq, heads, dim]; query head h reads key and value head
// h/(Heads/KVHeads). The matrix of scores is never held: rows of queries meet
// blocks of keys, with a running maximum and sum for each row.
type Attention[T Float] struct {
	Batch, SeqQ, SeqK int
	Heads, KVHeads    int
	Dim, DimV         int
	Scale             T
	// Cap, if not zero, bounds the scores s as Cap·tanh(s/Cap).
	Cap     T
	Mask    AttentionMask
	Q, K, V []T
}

// AttentionMask defines which keys a query attends to. A row without any gives zeros.
type AttentionMask struct {
	// Causal hides keys after the query's position, which is Offset plus its
	// index.
	Causal bool
	// Window, if not zero, is the number of keys that a query attends to, the last of them at the query's
	// position.
	Window int
	Offset int
	// SegmentsQ and SegmentsK, if not nil, are [batch, seq] segment numbers: a query attends only to keys of its
	// own segment.
	SegmentsQ, SegmentsK []int32
}

// keySpan is a range of keys.
type keySpan struct{ lo, hi int }

func (s keySpan) len() int { return s.hi - s.lo }

// and returns the intersection of s and t; it is within t even if it is empty.
func (s keySpan) and(t keySpan) keySpan {
	lo := min(max(s.lo, t.lo), t.hi)
	return keySpan{lo, max(lo, min(s.hi, t.hi))}
}

// visible returns the keys among seqK that at least one of queries first to last attends to, ignoring
// segments.
func (m *AttentionMask) visible(first, last, seqK int) keySpan {
	s := keySpan{0, seqK}
	if m.Causal || m.Window > 0 {
		s.hi = max(0, min(seqK, m.Offset+last+1))
	}
	if m.Window > 0 {
		s.lo = min(s.hi, max(0, m.Offset+first-m.Window+1))
	}
	return s
}

// segmentsMeet reports whether any of the queries may be in the same segment as any of
// the keys. It compares ranges of numbers, which is exact for packed sequences in
// order.
func segmentsMeet(q, k []int32) bool {
	q0, q1 := limits(q)
	k0, k1 := limits(k)
	return q0 <= k1 && k0 <= q1
}

func limits(x []int32) (lo, hi int32) {
	lo, hi = math.MaxInt32, math.MinInt32
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// The sizes of blocks: scores of attentionRows rows by attentionKeys keys stay
// in the L2 cache with the keys and values they come from.
const (
	attentionRows = 64
	attentionKeys = 256
	// attentionScores bounds the scores held at once: blocks of fewer rows have more
	// keys.
	attentionScores = attentionRows * attentionKeys
	// attentionSplit is the number of keys of a task when there are few tasks.
	attentionSplit = 2048
	// attentionTasks is a number of tasks that is enough for any machine.
	attentionTasks = 64
	// attentionWork is the number of multiplications below which threads cost more than they
	// save.
	attentionWork = 1 << 17
)

// A row of a block is one query head at one position. The heads that share a key head are adjacent in
// memory, so they are rows of one block: a block of n positions has n·group rows, ordered by position, then
// head.

func (a *Attention[T]) group() int { return a.Heads / a.KVHeads }

// positions returns the number of positions in a block of queries.
func (a *Attention[T]) positions() int {
	return max(1, min(a.SeqQ, attentionRows/a.group()))
}

// queryBlocks returns the number of query blocks of each key head.
func (a *Attention[T]) queryBlocks() int { return ceilDiv(a.SeqQ, a.positions()) }

// queries returns the positions of query block n.
func (a *Attention[T]) queries(n int) (first, count int) {
	first = n * a.positions()
	return first, min(a.positions(), a.SeqQ-first)
}

// small reports whether the work is too little for more than one thread.
func (a *Attention[T]) small() bool {
	return a.Batch*a.Heads*a.SeqQ*a.SeqK*(a.Dim+a.DimV) < attentionWork
}

// gather copies rows of width elements each, from position first on, of the
// heads that share key head g, out of a [batch, seq, heads, width] tensor.
func (a *Attention[T]) gather(dst, src []T, b, g, first, count, width int) {
	n := a.group() * width
	at := ((b*a.SeqQ+first)*a.Heads + g*a.group()) * width
	for i := range count {
		copy(dst[i*n:(i+1)*n], src[at:at+n])
		at += a.Heads * width
	}
}

// keyRows returns the rows of keys of head g from key first on, as a matrix operand; the stride between rows
// is width elements of all heads.
func (a *Attention[T]) keyRows(src []T, b, g, first, width int) []T {
	return src[((b*a.SeqK+first)*a.KVHeads+g)*width:]
}

// scores computes dst = alpha·rows·keysᵀ for a span of keys.
func (a *Attention[T]) scores(dst, rows, keys []T, m, n, width int, alpha T) {
	Gemm[T]{M: m, N: n, K: width, Alpha: alpha, C: dst,
		A: Dense(rows, width, NoTrans), B: Dense(keys, a.KVHeads*width, Transpose)}.Run(nil)
}

// capped bounds raw scores and, if slopes is not nil, stores their derivatives
// there.
func (a *Attention[T]) capped(scores, slopes []T) {
	if a.Cap == 0 {
		return
	}
	MulScalar(scores, scores, 1/a.Cap)
	Tanh(scores, scores)
	for i := range slopes {
		slopes[i] = 1 - scores[i]*scores[i]
	}
	MulScalar(scores, scores, a.Cap)
}

// hideSegments sets the scores of keys outside the query's segment to -Inf.
func hideSegments[T Float](scores []T, segment int32, keys []int32) {
	hidden := T(math.Inf(-1))
	for j, k := range keys {
		if k != segment {
			scores[j] = hidden
		}
	}
}

// scratch divides pooled memory into slices.
type scratch[T Float] struct {
	buf  *gemmBuffer
	rest []T
}

func newScratch[T Float](n int) scratch[T] {
	buf := newGemmBuffer(n * int(unsafe.Sizeof(*new(T))))
	return scratch[T]{buf, unsafe.Slice((*T)(buf.ptr), n)}
}

// cut returns the next n elements, uninitialized.
func (s *scratch[T]) cut(n int) []T {
	part := s.rest[:n:n]
	s.rest = s.rest[n:]
	return part
}

func (s *scratch[T]) free() { s.buf.free() }
