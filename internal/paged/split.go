package paged

import (
	"math"

	"github.com/galley-ml/galley/internal/kernel"
)

// splitKeys is the number of keys of a split: attention to a long sequence is computed for each split
// separately, in parallel, and merged in order. Where a sequence is split depends on nothing else, so bits
// depend on neither threads nor steps.
const splitKeys = 4 * blockKeys

// partial is the attention of queries to some keys: for each query the weighted sum of values, the largest
// score and the sum of weights.
type partial struct {
	out, top, sum []float32
}

func newPartial(hd heads, rows int) partial {
	return partial{make([]float32, rows*roundUp(hd.valueDim)), make([]float32, rows), make([]float32, rows)}
}

// merge adds the attention to further keys of n queries.
func (p *partial) merge(q partial, n, stride int) {
	for i := range n {
		if math.IsInf(float64(q.top[i]), -1) {
			continue // the query attends to none of them
		}
		top := max(p.top[i], q.top[i])
		mine, other := factor(p.top[i], top), factor(q.top[i], top)
		p.top[i], p.sum[i] = top, float32(p.sum[i]*mine)+float32(q.sum[i]*other)
		a, b := p.out[i*stride:(i+1)*stride], q.out[i*stride:(i+1)*stride]
		kernel.MulScalar(a, a, mine)
		kernel.MulScalar(b, b, other)
		kernel.Add(a, a, b)
	}
}

// factor returns the factor that rescales sums from one largest score to a larger one.
func factor(from, to float32) float32 { return float32(math.Exp(float64(from - to))) }

// sees returns the first and last key that a query of the task attends to.
func (s *Step) sees(hd heads, t attendTask) (first, last int) {
	if hd.window > 0 {
		first = max(0, s.position[t.row]-hd.window+1)
	}
	return first, s.position[t.row+t.rows-1]
}

// splits returns the first and last split of a task.
func (s *Step) splits(hd heads, t attendTask) (first, last int) {
	lo, hi := s.sees(hd, t)
	return lo / splitKeys, hi / splitKeys
}

// attendSplit computes the attention of few queries to many keys, with one task for each split of keys. It
// reports whether it did: with enough queries for all threads there is nothing to gain.
func (s *Step) attendSplit(c *layerCache, hd heads) bool {
	if len(s.tasks)*hd.keys >= 2*s.pool().Threads() {
		return false
	}
	work := s.splitList[:0]
	for i, t := range s.tasks {
		first, last := s.splits(hd, t)
		for g := range hd.keys {
			for split := first; split <= last; split++ {
				work = append(work, splitWork{task: i, head: g, split: split})
			}
		}
	}
	s.splitList = work
	if len(work) == len(s.tasks)*hd.keys {
		return false
	}
	s.pool().Run(len(work), func(i int) {
		u := &work[i]
		u.work = s.takeWork(hd)
		u.work.run(s, c, hd, s.tasks[u.task], u.head, u.split)
	})
	s.mergeSplits(hd, work)
	return true
}

// splitWork is a split of keys for one head of a task, and the memory of its result.
type splitWork struct {
	task, head, split int
	work              *attendWork
}

// mergeSplits merges the results of consecutive splits of a head, in order.
func (s *Step) mergeSplits(hd heads, work []splitWork) {
	for i := 0; i < len(work); {
		u := work[i]
		t := s.tasks[u.task]
		n := t.rows * (hd.queries / hd.keys)
		end := i + 1
		for ; end < len(work) && work[end].task == u.task && work[end].head == u.head; end++ {
			u.work.partial.merge(work[end].work.partial, n, roundUp(hd.valueDim))
		}
		s.give(hd, t, u.head, u.work.partial)
		for ; i < end; i++ {
			s.giveWork(work[i].work)
			work[i].work = nil
		}
	}
}

// give writes the final attention of a task's queries.
func (s *Step) give(hd heads, t attendTask, g int, p partial) {
	group := hd.queries / hd.keys
	for i := range t.rows * group {
		out := p.out[i*roundUp(hd.valueDim):][:hd.valueDim]
		at := ((t.row+i/group)*hd.queries + g*group + i%group) * hd.valueDim
		kernel.MulScalar(s.attended[at:at+hd.valueDim], out, 1/p.sum[i])
	}
}
