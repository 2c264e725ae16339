package paged

import (
	"math"

	"github.com/galley-ml/galley/internal/kernel"
)

// attendRows is the number of tokens of a sequence that attend together: their scores are one product per
// page.
const attendRows = 16

// blockPages is the number of pages of keys in a block of the online softmax. Blocks begin at multiples of
// it, so that a token's sums do not depend on how its sequence was split into steps.
const blockPages = 16

const blockKeys = blockPages * PageTokens

// attendTask is a range of consecutive tokens of a sequence.
type attendTask struct {
	row, rows int
	pages     []int32
}

// attendWork is the memory of one task: queries, scores, and accumulators.
type attendWork struct {
	q, scores []float32
	at        [blockPages]int // where the matrices of a block begin
	partial
	all partial // of the previous splits
}

// attend computes the attention of a layer on the rows h.
func (s *Step) attend(layer int, h []float32) {
	a := s.model.layers[layer].attention
	a.project(s, h)
	c, hd := &s.cache.layers[layer], a.heads()
	s.store(c, hd)
	if s.attendSplit(c, hd) {
		return
	}
	s.pool().Run(len(s.tasks)*hd.keys, func(t int) {
		w := s.takeWork(hd)
		s.attendHead(c, hd, s.tasks[t/hd.keys], t%hd.keys, w)
		s.giveWork(w)
	})
}

// putElements is how many keys and values a thread writes at least.
const putElements = 1 << 14

// store writes the keys and values of all rows into their pages, head by head: the tokens of a page share
// lines of memory.
func (s *Step) store(c *layerCache, hd heads) {
	keys, values := hd.keys*hd.dim, hd.keys*hd.valueDim
	s.pool().For(hd.keys, max(1, putElements/max(1, s.count*(hd.dim+hd.valueDim))), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			for i := range s.count {
				c.put(s.page[i], s.slot[i], h, s.k[i*keys:(i+1)*keys], s.v[i*values:(i+1)*values])
			}
		}
	})
}

// takeWork returns memory for a task that no other one uses; there is one for each thread.
func (s *Step) takeWork(hd heads) *attendWork {
	var w *attendWork
	s.workMu.Lock()
	if n := len(s.work); n > 0 {
		w, s.work = s.work[n-1], s.work[:n-1]
	}
	s.workMu.Unlock()
	rows := attendRows * (hd.queries / hd.keys)
	if w != nil && len(w.q) >= rows*hd.dim && len(w.out) >= rows*roundUp(hd.valueDim) && len(w.top) >= rows {
		return w
	}
	return &attendWork{q: make([]float32, rows*hd.dim), scores: make([]float32, rows*blockKeys),
		partial: newPartial(hd, rows), all: newPartial(hd, rows)}
}

func (s *Step) giveWork(w *attendWork) {
	s.workMu.Lock()
	s.work = append(s.work, w)
	s.workMu.Unlock()
}

// attendHead computes all queries of a task that share one key-value head, split after split.
func (s *Step) attendHead(c *layerCache, hd heads, t attendTask, g int, w *attendWork) {
	n, stride := t.rows*(hd.queries/hd.keys), roundUp(hd.valueDim)
	first, last := s.splits(hd, t)
	for i := first; i <= last; i++ {
		w.run(s, c, hd, t, g, i)
		switch {
		case i > first:
			w.all.merge(w.partial, n, stride)
		case last > first:
			w.all, w.partial = w.partial, w.all
		}
	}
	if last > first {
		s.give(hd, t, g, w.all)
		return
	}
	s.give(hd, t, g, w.partial)
}

// run computes the attention of a task's queries to one split of keys.
func (w *attendWork) run(s *Step, c *layerCache, hd heads, t attendTask, g, split int) {
	group := hd.queries / hd.keys
	n := t.rows * group
	w.start(s, hd, t, g, group)
	lo, last := s.sees(hd, t)
	end := min(last, (split+1)*splitKeys-1)
	for b := max(lo, split*splitKeys) / blockKeys; b*blockKeys <= end; b++ {
		firstPage, lastPage := max(b*blockPages, lo/PageTokens), min((b+1)*blockPages-1, last/PageTokens)
		w.scoreBlock(c, hd, t.pages, g, n, firstPage, lastPage)
		for i := range n {
			w.weigh(hd, i, s.position[t.row+i/group], firstPage, lastPage)
		}
		w.addValues(c, hd, t.pages, g, n, firstPage, lastPage, last)
	}
}

// start loads the scaled queries and resets the accumulators.
func (w *attendWork) start(s *Step, hd heads, t attendTask, g, group int) {
	width := group * hd.dim
	for i := range t.rows {
		from := ((t.row+i)*hd.queries + g*group) * hd.dim
		kernel.MulScalar(w.q[i*width:(i+1)*width], s.q[from:from+width], hd.scale)
	}
	n := t.rows * group
	clear(w.out[:n*roundUp(hd.valueDim)])
	clear(w.sum[:n])
	for i := range n {
		w.top[i] = float32(math.Inf(-1))
	}
}

// paddedRows is up to how many queries the pages of a block are multiplied in full groups.
const paddedRows = 2

// scoreBlock computes the scores of all queries with the keys of pages, starting at the block's first
// element.
func (w *attendWork) scoreBlock(c *layerCache, hd heads, pages []int32, g, n, firstPage, lastPage int) {
	width := (lastPage - firstPage + 1) * PageTokens
	for i := range n {
		clear(w.scores[i*blockKeys : i*blockKeys+width])
	}
	o := kernel.Ordered{Rows: n, K: hd.dim, Cols: PageTokens, LDY: blockKeys, LDX: hd.dim, LDW: PageTokens}
	at := w.places(&c.keys, pages, g, firstPage, lastPage)
	for n <= paddedRows && len(at)%kernel.AcrossPages != 0 { // scores that nothing reads
		at = append(at, at[len(at)-1])
	}
	c.keys.across(o, w.scores, w.q, at)
	for p := firstPage; p <= lastPage; p++ {
		c.keys.scale(w.scores[(p-firstPage)*PageTokens:], n, blockKeys, matrixOf(pages[p], g), PageTokens)
	}
}

// places returns where the matrices of pages begin.
func (w *attendWork) places(s *store, pages []int32, g, firstPage, lastPage int) []int {
	at := w.at[:0]
	for _, p := range pages[firstPage : lastPage+1] {
		at = append(at, s.at(matrixOf(p, g)))
	}
	return at
}

// weigh turns the scores of one query into weights relative to the largest score so far, and rescales its
// previous sums. Keys that are masked for the query get weight 0.
func (w *attendWork) weigh(hd heads, i, position, firstPage, lastPage int) {
	row := w.scores[i*blockKeys : i*blockKeys+(lastPage-firstPage+1)*PageTokens]
	from, to := 0, min(len(row), position+1-firstPage*PageTokens)
	if hd.window > 0 {
		from = max(0, position-hd.window+1-firstPage*PageTokens)
	}
	if from >= to {
		clear(row)
		return
	}
	if hd.cap != 0 {
		capped(row[from:to], hd.cap)
	}
	top := max(w.top[i], kernel.MaxOf(row[from:to]))
	clear(row[:from])
	clear(row[to:])
	kernel.AddScalar(row[from:to], row[from:to], -top)
	kernel.Exp(row[from:to], row[from:to])
	w.rescale(hd, i, top)
	for p := 0; p < len(row); p += PageTokens {
		w.sum[i] += kernel.Sum(row[p : p+PageTokens])
	}
}

// rescale multiplies the sums of a query by the factor for the new largest score.
func (w *attendWork) rescale(hd heads, i int, top float32) {
	if top == w.top[i] {
		return
	}
	f := float32(math.Exp(float64(w.top[i] - top)))
	w.top[i], w.sum[i] = top, w.sum[i]*f
	out := w.out[i*roundUp(hd.valueDim) : (i+1)*roundUp(hd.valueDim)]
	kernel.MulScalar(out, out, f)
}

// addValues adds the weighted values of pages; the last tokens of a page may not exist yet.
func (w *attendWork) addValues(c *layerCache, hd heads, pages []int32, g, n, firstPage, lastPage, last int) {
	stride := roundUp(hd.valueDim)
	for p := firstPage; p <= lastPage; p++ {
		tokens := min(PageTokens, last+1-p*PageTokens)
		c.values.scale(w.scores[(p-firstPage)*PageTokens:], n, blockKeys, matrixOf(pages[p], g), tokens)
	}
	o := kernel.Ordered{Rows: n, K: PageTokens, Cols: stride, LDY: stride, LDX: blockKeys, LDW: stride}
	at := w.places(&c.values, pages, g, firstPage, lastPage)
	whole := min(len(at), (last+1)/PageTokens-firstPage)
	c.values.along(o, w.out, w.scores, at[:whole])
	if whole < len(at) {
		o.K = last + 1 - (firstPage+whole)*PageTokens
		c.values.along(o, w.out, w.scores[whole*PageTokens:], at[whole:])
	}
}
