package paged

import (
	"math"

	"github.com/galley-ml/galley/internal/kernel"
)

// attendRows is how many tokens of a sequence attend together: their scores are one product a page.
const attendRows = 16

// blockPages is how many pages of keys are a block of the running softmax. Blocks begin at multiples of it,
// so that a token's sums do not depend on how its sequence was cut into steps.
const blockPages = 16

const blockKeys = blockPages * PageTokens

// attendTask is neighbouring tokens of a sequence.
type attendTask struct {
	row, rows int
	pages     []int32
}

// attendWork is the memory of one task: queries, scores, and what is summed.
type attendWork struct {
	q, scores []float32
	partial
	all partial // of the splits before
}

// attend computes the attention of a layer on the rows h.
func (s *Step) attend(layer int, h []float32) {
	a := s.model.layers[layer].attention
	a.project(s, h)
	c, hd := &s.cache.layers[layer], a.heads()
	keys, values := hd.keys*hd.dim, hd.keys*hd.valueDim
	for i := range s.count {
		c.put(s.page[i], s.slot[i], s.k[i*keys:(i+1)*keys], s.v[i*values:(i+1)*values])
	}
	if s.attendSplit(c, hd) {
		return
	}
	s.pool().Run(len(s.tasks)*hd.keys, func(t int) {
		w := s.takeWork(hd)
		s.attendHead(c, hd, s.tasks[t/hd.keys], t%hd.keys, w)
		s.giveWork(w)
	})
}

// takeWork returns memory for a task that no other uses; there is as much of it as threads.
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

// attendHead computes all queries of a task that share one head of keys and values, split after split.
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

// run computes what a split of keys gives to the queries of a task.
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

// start takes the queries, scaled, and forgets what was before.
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

// scoreBlock sets the scores of all queries with the keys of pages, from the block's first element on.
func (w *attendWork) scoreBlock(c *layerCache, hd heads, pages []int32, g, n, firstPage, lastPage int) {
	width := (lastPage - firstPage + 1) * PageTokens
	for i := range n {
		clear(w.scores[i*blockKeys : i*blockKeys+width])
	}
	o := kernel.Ordered{Rows: n, K: hd.dim, Cols: PageTokens, LDY: blockKeys, LDX: hd.dim, LDW: PageTokens}
	for p := firstPage; p <= lastPage; p++ {
		m, to := c.matrix(pages[p], g), w.scores[(p-firstPage)*PageTokens:]
		if p < lastPage {
			c.keys.fetch(c.matrix(pages[p+1], g))
		} else {
			c.values.fetch(c.matrix(pages[firstPage], g))
		}
		c.keys.multiply(o, to, w.q, m)
		c.keys.scale(to, n, blockKeys, m, PageTokens)
	}
}

// weigh turns the scores of one query into weights relative to the largest score so far, and scales what was
// summed before to it. Keys that the query does not see get weight 0.
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

// rescale multiplies the sums of a query by what the new largest score makes of them.
func (w *attendWork) rescale(hd heads, i int, top float32) {
	if top == w.top[i] {
		return
	}
	f := float32(math.Exp(float64(w.top[i] - top)))
	w.top[i], w.sum[i] = top, w.sum[i]*f
	out := w.out[i*roundUp(hd.valueDim) : (i+1)*roundUp(hd.valueDim)]
	kernel.MulScalar(out, out, f)
}

// addValues adds the values of pages by their weights; a page's last tokens may not be there yet.
func (w *attendWork) addValues(c *layerCache, hd heads, pages []int32, g, n, firstPage, lastPage, last int) {
	stride := roundUp(hd.valueDim)
	for p := firstPage; p <= lastPage; p++ {
		o := kernel.Ordered{Rows: n, K: min(PageTokens, last+1-p*PageTokens), Cols: stride, LDY: stride,
			LDX: blockKeys, LDW: stride}
		m, weights := c.matrix(pages[p], g), w.scores[(p-firstPage)*PageTokens:]
		if p < lastPage {
			c.values.fetch(c.matrix(pages[p+1], g))
		}
		c.values.scale(weights, n, blockKeys, m, o.K)
		c.values.multiply(o, w.out, weights, m)
	}
}
