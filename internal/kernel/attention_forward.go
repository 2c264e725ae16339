package kernel

import "math"

// Forward computes out, [batch, seqQ, heads, dimV], and lse, [batch, heads, seqQ]: the logarithm of each
// row's sum of exponentials, -Inf for a row without visible keys. Results do not depend on the number of
// threads.
func (a *Attention[T]) Forward(p *Pool, out, lse []T) {
	if a.Batch*a.Heads*a.SeqQ == 0 {
		return
	}
	if a.small() {
		p = nil
	}
	pairs, blocks := a.Batch*a.KVHeads, a.queryBlocks()
	splits := 1
	if pairs*blocks < attentionTasks {
		splits = max(1, ceilDiv(a.SeqK, attentionSplit))
	}
	if splits > 1 {
		a.forwardSplit(p, out, lse, splits)
		return
	}
	p.Run(pairs*blocks, func(t int) {
		f := a.newRows(t/blocks, blocks-1-t%blocks) // causal: the longest rows first
		f.run(keySpan{0, a.SeqK})
		f.store(out, lse)
		f.free()
	})
}

// Resume continues a Forward, or another Resume, over more keys: out and lse hold the results over the keys
// so far, zeros and -Inf at first, and are updated to those over all keys.
func (a *Attention[T]) Resume(p *Pool, out, lse []T) {
	if a.Batch*a.Heads*a.SeqQ*a.SeqK == 0 {
		return
	}
	if a.small() {
		p = nil
	}
	blocks := a.queryBlocks()
	p.Run(a.Batch*a.KVHeads*blocks, func(t int) {
		f := a.newRows(t/blocks, blocks-1-t%blocks)
		f.load(out, lse)
		f.run(keySpan{0, a.SeqK})
		f.store(out, lse)
		f.free()
	})
}

// forwardSplit is like Forward for few rows and many keys, as in generation: each task handles some of the
// keys, and the parts are joined in order.
func (a *Attention[T]) forwardSplit(p *Pool, out, lse []T, splits int) {
	blocks := a.queryBlocks()
	tasks := a.Batch * a.KVHeads * blocks
	parts := make([]*flashRows[T], tasks*splits)
	p.Run(len(parts), func(t int) {
		f := a.newRows(t/splits/blocks, t/splits%blocks)
		lo := t % splits * attentionSplit
		f.run(keySpan{lo, min(a.SeqK, lo+attentionSplit)})
		parts[t] = f
	})
	p.Run(tasks, func(t int) {
		f := parts[t*splits]
		for _, other := range parts[t*splits+1 : (t+1)*splits] {
			f.join(other)
			other.free()
		}
		f.store(out, lse)
		f.free()
	})
}

// flashRows is the running state of a block of query rows in the loop over keys.
type flashRows[T Float] struct {
	*Attention[T]
	b, g         int
	first, count int // positions
	rows         int
	keys         int // most keys of a block
	q, scores    []T
	out          []T // not yet divided by sum
	max, sum     []T
	mem          scratch[T]
	started      bool
}

func (a *Attention[T]) newRows(pair, block int) *flashRows[T] {
	f := &flashRows[T]{Attention: a, b: pair / a.KVHeads, g: pair % a.KVHeads}
	f.first, f.count = a.queries(block)
	f.rows = f.count * a.group()
	f.keys = ceilDiv(min(a.SeqK, max(attentionKeys, min(attentionScores/f.rows, attentionSplit))), 16) * 16
	f.mem = newScratch[T](f.rows * (a.Dim + a.DimV + f.keys + 2))
	f.q, f.out = f.mem.cut(f.rows*a.Dim), f.mem.cut(f.rows*a.DimV)
	f.scores = f.mem.cut(f.rows * f.keys)
	f.max, f.sum = f.mem.cut(f.rows), f.mem.cut(f.rows)
	a.gather(f.q, a.Q, f.b, f.g, f.first, f.count, a.Dim)
	for i := range f.max {
		f.max[i], f.sum[i] = T(math.Inf(-1)), 0
	}
	return f
}

func (f *flashRows[T]) free() { f.mem.free() }

// run processes a span of keys.
func (f *flashRows[T]) run(keys keySpan) {
	all := f.Mask.visible(f.first, f.first+f.count-1, f.SeqK).and(keys)
	size := blockSize(all.len(), max(1, f.keys), 16)
	for k := all.lo; k < all.hi; k += size {
		f.block(keySpan{k, min(k+size, all.hi)})
	}
	if !f.started {
		clear(f.out)
	}
}

// block processes one block of keys.
func (f *flashRows[T]) block(keys keySpan) {
	if !f.meets(keys) {
		return
	}
	n := keys.len()
	f.Attention.scores(f.scores, f.q, f.keyRows(f.K, f.b, f.g, keys.lo, f.Dim), f.rows, n, f.Dim, f.Scale)
	f.capped(f.scores[:f.rows*n], nil)
	group := f.group()
	for i := range f.rows {
		f.absorb(i, f.scores[i*n:(i+1)*n], keys, f.first+i/group)
	}
	update := Accumulate
	if !f.started {
		update, f.started = Overwrite, true
	}
	Gemm[T]{M: f.rows, N: f.DimV, K: n, A: Dense(f.scores, n, NoTrans), C: f.out, Update: update,
		B: Dense(f.keyRows(f.V, f.b, f.g, keys.lo, f.DimV), f.KVHeads*f.DimV, NoTrans)}.Run(nil)
}

// meets reports whether any query and key of a block may be in the same segment.
func (f *flashRows[T]) meets(keys keySpan) bool {
	m := &f.Mask
	if m.SegmentsQ == nil {
		return true
	}
	q := m.SegmentsQ[f.b*f.SeqQ+f.first:][:f.count]
	return segmentsMeet(q, m.SegmentsK[f.b*f.SeqK+keys.lo:][:keys.len()])
}

// absorb turns a row of scores into weights relative to the row's maximum so far, and rescales the row's sums
// if the maximum has grown.
func (f *flashRows[T]) absorb(i int, row []T, keys keySpan, position int) {
	see := f.Mask.visible(position, position, f.SeqK).and(keys)
	seen := row[see.lo-keys.lo : see.hi-keys.lo]
	if f.Mask.SegmentsQ != nil {
		hideSegments(seen, f.Mask.SegmentsQ[f.b*f.SeqQ+position], f.Mask.SegmentsK[f.b*f.SeqK+see.lo:][:see.len()])
	}
	top := MaxOf(seen)
	if math.IsInf(float64(top), -1) {
		clear(row)
		return
	}
	if top > f.max[i] {
		f.rescale(i, top)
	}
	f.sum[i] += expSumStore(seen, seen, f.max[i])
	clear(row[:see.lo-keys.lo])
	clear(row[see.hi-keys.lo:])
}

// rescale makes the sums of a row relative to a larger maximum.
func (f *flashRows[T]) rescale(i int, top T) {
	if f.sum[i] != 0 {
		factor := expOf(f.max[i] - top)
		f.sum[i] *= factor
		o := f.out[i*f.DimV : (i+1)*f.DimV]
		MulScalar(o, o, factor)
	}
	f.max[i] = top
}

// join adds the sums of the same rows over other keys.
func (f *flashRows[T]) join(g *flashRows[T]) {
	for i, top := range g.max {
		if g.sum[i] == 0 {
			continue
		}
		if top > f.max[i] {
			f.rescale(i, top)
		}
		factor := expOf(top - f.max[i])
		f.sum[i] += factor * g.sum[i]
		Axpy(f.out[i*f.DimV:(i+1)*f.DimV], factor, g.out[i*f.DimV:(i+1)*f.DimV])
	}
}

// load restores rows from their stored results, which then count as one key with weight exp(lse).
func (f *flashRows[T]) load(out, lse []T) {
	f.gather(f.out, out, f.b, f.g, f.first, f.count, f.DimV)
	f.started = true
	group := f.group()
	for i := range f.rows {
		h := f.g*group + i%group
		f.max[i] = lse[(f.b*f.Heads+h)*f.SeqQ+f.first+i/group]
		if !math.IsInf(float64(f.max[i]), -1) {
			f.sum[i] = 1
		}
	}
}

// store writes the finished rows.
func (f *flashRows[T]) store(out, lse []T) {
	group := f.group()
	for i := range f.rows {
		s, h := f.first+i/group, f.g*group+i%group
		factor := T(0)
		if f.sum[i] != 0 {
			factor = 1 / f.sum[i]
		}
		at := ((f.b*f.SeqQ+s)*f.Heads + h) * f.DimV
		MulScalar(out[at:at+f.DimV], f.out[i*f.DimV:(i+1)*f.DimV], factor)
		lse[(f.b*f.Heads+h)*f.SeqQ+s] = f.max[i] + T(math.Log(float64(f.sum[i])))
	}
}
