package kernel

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// AttentionGrad holds the inputs of Backward, which are Forward's results and their gradients (DLSE may be
// nil), and its results DQ, DK and DV.
type AttentionGrad[T Float] struct {
	Out, LSE   []T
	DOut, DLSE []T
	DQ, DK, DV []T
	// Update tells whether to overwrite DQ, DK and DV or to add to them.
	Update Update
}

// Backward computes g.DQ, g.DK and g.DV. Weights are recomputed from LSE, so that
// scratch memory grows linearly with the sequence and not with its square.
//
// A unit of work is one block of keys of one key head: it loops over the blocks of
// queries, last first, and sums its own rows of DK and DV. Contributions to DQ are
// added in the order of key blocks, for which units wait for each other if
// necessary; so no sum depends on the number of threads, and each block is computed
// once.
func (a *Attention[T]) Backward(p *Pool, g AttentionGrad[T]) {
	if a.Batch*a.Heads*a.SeqQ*a.SeqK == 0 {
		if g.Update == Overwrite {
			clear(g.DQ)
			clear(g.DK)
			clear(g.DV)
		}
		return
	}
	pairs, blocks := a.Batch*a.KVHeads, a.queryBlocks()
	if a.small() {
		p = nil
	}
	j := &attentionJob[T]{Attention: a, AttentionGrad: g, keys: blockSize(a.SeqK, attentionKeys, 16)}
	j.keyBlocks = ceilDiv(a.SeqK, j.keys)
	mem := newScratch[T](a.Batch * a.Heads * a.SeqQ)
	j.delta = mem.cut(a.Batch * a.Heads * a.SeqQ)
	defer mem.free()
	p.For(a.Batch*a.SeqQ, 64, j.prepare)
	j.turn = make([]atomic.Int32, pairs*blocks)
	if pairs >= 4*p.Threads() { // enough pairs for all threads: keys and queries of a pair stay in the cache
		p.Run(pairs, func(pair int) { j.runUnits(pair, 0, j.keyBlocks) })
		return
	}
	p.Run(min(p.Threads(), pairs*j.keyBlocks), func(int) { j.claim(pairs) })
}

// attentionJob is a Backward in progress.
type attentionJob[T Float] struct {
	*Attention[T]
	AttentionGrad[T]
	keys, keyBlocks int
	// delta is Σ dout·out - dlse of each row, the term that the softmax gradient subtracts.
	delta []T
	// turn counts, for each block of queries, the key blocks that have added
	// to its DQ.
	turn   []atomic.Int32
	next   atomic.Int64
	failed atomic.Bool
}

// prepare computes delta and clears DQ for some positions of all batches.
func (j *attentionJob[T]) prepare(lo, hi int) {
	if n := j.Heads * j.Dim; j.Update == Overwrite {
		clear(j.DQ[lo*n : hi*n])
	}
	for r := lo * j.Heads; r < hi*j.Heads; r++ {
		b, s, h := r/j.Heads/j.SeqQ, r/j.Heads%j.SeqQ, r%j.Heads
		at := (b*j.Heads+h)*j.SeqQ + s
		d := Dot(j.DOut[r*j.DimV:(r+1)*j.DimV], j.Out[r*j.DimV:(r+1)*j.DimV])
		if j.DLSE != nil {
			d -= j.DLSE[at]
		}
		j.delta[at] = d
	}
}

// claim runs units until none is left. They are claimed in the order of key blocks, so the units that one
// waits for are done or running.
func (j *attentionJob[T]) claim(pairs int) {
	for {
		u := int(j.next.Add(1)) - 1
		if u >= pairs*j.keyBlocks {
			return
		}
		j.runUnits(u%pairs, u/pairs, u/pairs+1)
	}
}

// runUnits runs some key blocks of one pair of batch element and key head.
func (j *attentionJob[T]) runUnits(pair, lo, hi int) {
	done := false
	defer func() { // units that wait for one that panicked must not wait forever
		if !done {
			j.failed.Store(true)
		}
	}()
	u := j.newUnit(pair)
	for n := lo; n < hi; n++ {
		u.run(n)
	}
	u.mem.free()
	done = true
}

// flashUnit is the scratch of one unit.
type flashUnit[T Float] struct {
	*attentionJob[T]
	pair, b, g        int
	q, dout, dq       []T
	weights, dweights []T
	slopes            []T // of capped scores; empty without a cap
	mem               scratch[T]
}

func (j *attentionJob[T]) newUnit(pair int) *flashUnit[T] {
	rows := j.positions() * j.group()
	u := &flashUnit[T]{attentionJob: j, pair: pair, b: pair / j.KVHeads, g: pair % j.KVHeads}
	slopes := 0
	if j.Cap != 0 {
		slopes = rows * j.keys
	}
	u.mem = newScratch[T](rows*(2*j.Dim+j.DimV+2*j.keys) + slopes)
	u.q, u.dq, u.dout = u.mem.cut(rows*j.Dim), u.mem.cut(rows*j.Dim), u.mem.cut(rows*j.DimV)
	u.weights, u.dweights = u.mem.cut(rows*j.keys), u.mem.cut(rows*j.keys)
	u.slopes = u.mem.cut(slopes)
	return u
}

// run computes key block n.
func (u *flashUnit[T]) run(n int) {
	keys := keySpan{n * u.keys, min((n+1)*u.keys, u.SeqK)}
	for k := keys.lo; k < keys.hi && u.Update == Overwrite; k++ {
		clear(u.keyRows(u.DK, u.b, u.g, k, u.Dim)[:u.Dim])
		clear(u.keyRows(u.DV, u.b, u.g, k, u.DimV)[:u.DimV])
	}
	for block := u.queryBlocks() - 1; block >= 0; block-- {
		first, count := u.queries(block)
		all := u.Mask.visible(first, first+count-1, u.SeqK)
		if see := all.and(keys); see.len() > 0 {
			u.block(block, see, n-all.lo/u.keys)
		}
	}
}

// block adds what one block of queries contributes to the keys in see and then, in its turn, what the keys
// contribute to DQ.
func (u *flashUnit[T]) block(block int, see keySpan, turn int) {
	first, count := u.queries(block)
	mine := &u.turn[u.pair*u.queryBlocks()+block]
	meet := u.Mask.SegmentsQ == nil || segmentsMeet(
		u.Mask.SegmentsQ[u.b*u.SeqQ+first:][:count], u.Mask.SegmentsK[u.b*u.SeqK+see.lo:][:see.len()])
	if meet {
		u.compute(first, count, see)
	}
	u.await(mine, turn)
	if meet {
		u.addQueries(first, count)
	}
	mine.Add(1)
}

// await returns when it is the unit's turn. Others are usually at most a block or two behind, unless other
// programs use the processor.
func (u *flashUnit[T]) await(mine *atomic.Int32, turn int) {
	for spins := 0; int(mine.Load()) != turn && !u.failed.Load(); spins++ {
		if spins < 1000 {
			runtime.Gosched()
		} else {
			time.Sleep(spinTime)
		}
	}
}

// compute adds to DK and DV and stores the block's contribution to DQ in dq.
func (u *flashUnit[T]) compute(first, count int, see keySpan) {
	rows, n := count*u.group(), see.len()
	u.gather(u.q, u.Q, u.b, u.g, first, count, u.Dim)
	u.gather(u.dout, u.DOut, u.b, u.g, first, count, u.DimV)
	k := u.keyRows(u.K, u.b, u.g, see.lo, u.Dim)
	u.scores(u.weights, u.q, k, rows, n, u.Dim, u.Scale)
	slopes := u.slopes[:min(len(u.slopes), rows*n)]
	u.capped(u.weights[:rows*n], slopes)
	u.scores(u.dweights, u.dout, u.keyRows(u.V, u.b, u.g, see.lo, u.DimV), rows, n, u.DimV, 1)
	for i := range rows {
		u.weigh(i, u.weights[i*n:(i+1)*n], see, first+i/u.group())
	}
	u.addKeys(u.keyRows(u.DV, u.b, u.g, see.lo, u.DimV), u.weights, u.dout, rows, n, u.DimV, 1)
	for i := range rows {
		at := u.rowAt(i, first)
		softmaxGradBy(u.dweights[i*n:(i+1)*n], u.weights[i*n:(i+1)*n], u.delta[at])
	}
	Mul(u.dweights[:len(slopes)], u.dweights[:len(slopes)], slopes)
	u.addKeys(u.keyRows(u.DK, u.b, u.g, see.lo, u.Dim), u.dweights, u.q, rows, n, u.Dim, u.Scale)
	Gemm[T]{M: rows, N: u.Dim, K: n, Alpha: u.Scale, C: u.dq,
		A: Dense(u.dweights, n, NoTrans), B: Dense(k, u.KVHeads*u.Dim, NoTrans)}.Run(nil)
}

// addKeys adds alpha·weightsᵀ·x to rows of DK or DV.
func (u *flashUnit[T]) addKeys(dst, weights, x []T, rows, n, width int, alpha T) {
	ld := u.KVHeads * width
	for i := 0; i < n; i += stripTaskRows { // few enough rows at a time that the product does not pack
		Gemm[T]{M: min(stripTaskRows, n-i), N: width, K: rows, Alpha: alpha, C: dst[i*ld:], LDC: ld,
			Update: Accumulate,
			A:      Dense(weights[i:], n, Transpose), B: Dense(x, width, NoTrans)}.Run(nil)
	}
}

// rowAt returns the index of row i, of the block at position first, in lse and delta.
func (u *flashUnit[T]) rowAt(i, first int) int {
	h, s := u.g*u.group()+i%u.group(), first+i/u.group()
	return (u.b*u.Heads+h)*u.SeqQ + s
}

// weigh turns a row of scores into softmax weights.
func (u *flashUnit[T]) weigh(i int, row []T, keys keySpan, position int) {
	h := u.g*u.group() + i%u.group()
	lse := u.LSE[(u.b*u.Heads+h)*u.SeqQ+position]
	see := u.Mask.visible(position, position, u.SeqK).and(keys)
	if math.IsInf(float64(lse), -1) {
		see.hi = see.lo
	}
	seen := row[see.lo-keys.lo : see.hi-keys.lo]
	if u.Mask.SegmentsQ != nil {
		hideSegments(seen, u.Mask.SegmentsQ[u.b*u.SeqQ+position], u.Mask.SegmentsK[u.b*u.SeqK+see.lo:][:see.len()])
	}
	expAffine(seen, seen, lse, 1, 0)
	clear(row[:see.lo-keys.lo])
	clear(row[see.hi-keys.lo:])
}

// addQueries adds the block's dq to DQ.
func (u *flashUnit[T]) addQueries(first, count int) {
	n := u.group() * u.Dim
	at := ((u.b*u.SeqQ+first)*u.Heads + u.g*u.group()) * u.Dim
	for i := range count {
		row := u.DQ[at : at+n]
		Add(row, row, u.dq[i*n:(i+1)*n])
		at += u.Heads * u.Dim
	}
}

// softmaxGradBy sets dx[i] = y[i]*(dx[i]-dot).
func softmaxGradBy[T Float](dx, y []T, dot T) {
	if f := simd.softmaxGrad; f != nil {
		if d := as32(dx); d != nil {
			f(d, as32(y), d, float32(dot))
			return
		}
	}
	for i := range dx {
		dx[i] = y[i] * (dx[i] - dot)
	}
}
