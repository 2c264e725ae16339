package engine

import (
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/paged"
)

// item is what a step computes of one sequence.
type item struct {
	*sequence
	count int
}

// schedule chooses what the next step computes: first one token of every sequence that is being continued, then
// chunks of prompts, then prompts of sequences that begin, up to the budget.
func (e *Engine) schedule() {
	e.batch = e.batch[:0]
	e.sweep(time.Now())
	order := slices.Clone(e.running)
	slices.SortFunc(order, func(a, b *sequence) int {
		if e.ranks(a, b) {
			return -1
		}
		return 1
	})
	order = e.continueAll(order)
	room := e.pace.chunk(e.config.Budget-len(e.batch), len(e.batch))
	for _, s := range order {
		if s.left() > 1 && room > 0 {
			room -= e.put(s, room)
		}
	}
	if len(order) == len(e.running) { // nobody had to give pages back
		e.admit(room)
	}
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool { return s.pages == nil })
}

// ranks reports whether a keeps its pages longer than b.
func (e *Engine) ranks(a, b *sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.arrival < b.arrival
}

// continueAll puts one token of each sequence that is being continued into the step. Where there is no page for
// it, the last in order gives its own back.
func (e *Engine) continueAll(order []*sequence) []*sequence {
	for i := 0; i < len(order); i++ {
		s := order[i]
		if s.left() != 1 {
			continue
		}
		for !s.grow(e.pages, (len(s.tokens)+pageTokens-1)/pageTokens) {
			last := order[len(order)-1]
			order = order[:len(order)-1]
			e.preempt(last)
			if last == s {
				break
			}
		}
		if s.pages != nil {
			e.put(s, 1)
		}
	}
	return order
}

// preempt takes a sequence's pages; what it has generated stays, and is read again with the prompt.
func (e *Engine) preempt(s *sequence) {
	s.leave(e.pages)
	e.queue.push(s)
	e.stats.Preemptions++
}

// put puts up to most tokens of a sequence into the step.
func (e *Engine) put(s *sequence, most int) int {
	n := min(s.left(), most)
	e.batch = append(e.batch, item{s, n})
	return n
}

// admit lets sequences begin while there are room in the step and pages for their prompts.
func (e *Engine) admit(room int) {
	for room > 0 && len(e.running) < e.config.Running {
		s := e.queue.next()
		if s == nil {
			return
		}
		s.match(e.pages)
		if e.pages.available() < s.need()-len(s.pages)+e.spare() {
			s.leave(e.pages)
			return
		}
		if !s.began {
			e.stats.PrefixQueries += int64(len(s.tokens))
			e.stats.PrefixHits += int64(s.computed)
			s.waited = time.Since(s.came)
		}
		s.grow(e.pages, s.need())
		e.queue.remove(s)
		e.running = append(e.running, s)
		room -= e.put(s, room)
	}
}

// spare is how many pages are left to those that run, so that a newcomer is not sent away at once.
func (e *Engine) spare() int { return (len(e.running) + 3) / 4 }

// sweep ends what nobody waits for.
func (e *Engine) sweep(now time.Time) {
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool {
		if s.expired(now) {
			s.end(ErrDeadline)
		}
		if !s.gone() {
			return false
		}
		e.finish(s)
		return true
	})
	e.queue.list = slices.DeleteFunc(e.queue.list, func(s *sequence) bool {
		if s.expired(now) {
			s.end(ErrDeadline)
		}
		if !s.gone() {
			return false
		}
		e.finish(s)
		return true
	})
}

// gather is the batch as the model takes it.
func (e *Engine) gather() []paged.Sequence {
	e.seqs = e.seqs[:0]
	for _, it := range e.batch {
		want := 0
		if it.left() == it.count {
			want = 1
		}
		e.seqs = append(e.seqs, paged.Sequence{Pages: it.pages, Start: it.computed,
			Tokens: it.tokens[it.computed : it.computed+it.count], Want: want})
	}
	return e.seqs
}
