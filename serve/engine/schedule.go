package engine

import (
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/paged"
)

// item is one sequence's part of a step: its next count tokens.
type item struct {
	*sequence
	count int
	// draft are the draft tokens that follow, at most guesses of them; next is the sequence's first row in the
	// step's logits.
	draft   []int32
	guesses int
	next    int
	// ahead is how many steps a backend takes with the sequence, sampling tokens itself; 0 if the host samples.
	ahead int
}

// rows returns the item's number of rows of logits: none if tokens remain to be computed after it.
func (it *item) rows() int {
	if it.left() != it.count {
		return 0
	}
	return 1 + len(it.draft)
}

// schedule fills the next step: first one token of every decoding sequence, then chunks of running prompts,
// then prompts of new sequences, up to the budget.
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
	e.speculate()
	room := e.pace.chunk(e.config.Budget-e.batchTokens(), len(e.batch), e.waiting(len(e.batch)))
	for _, s := range order {
		if s.left() > 1 && room > 0 {
			room -= e.put(s, room)
		}
	}
	if len(order) == len(e.running) { // no sequence was preempted
		e.admit(room)
	}
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool { return s.pages == nil })
	e.goAhead()
}

// waiting returns how many sequences wait for their first token and could get it: running ones that are not
// decoding yet, and those that could start beside them.
func (e *Engine) waiting(continued int) int {
	return min(len(e.running)-continued+len(e.queue.list), e.config.Running-continued)
}

// ranks reports whether a is preempted after b.
func (e *Engine) ranks(a, b *sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.arrival < b.arrival
}

// continueAll adds one token of each decoding sequence to the step. If there is no page for it, the last
// sequence in order is preempted.
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

// preempt frees a sequence's pages and queues it; its generated tokens stay and are computed again.
func (e *Engine) preempt(s *sequence) {
	s.leave(e.pages)
	e.queue.push(s)
	e.stats.Preemptions++
}

// put adds up to most tokens of a sequence to the step.
func (e *Engine) put(s *sequence, most int) int {
	n := min(s.left(), most)
	e.batch = append(e.batch, item{sequence: s, count: n})
	return n
}

// admit starts sequences while the step has room tokens left and there are pages for their prompts.
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

// spare returns how many pages to leave to running sequences, so that a new one is not preempted soon.
func (e *Engine) spare() int { return (len(e.running) + 3) / 4 }

// sweep ends requests that are cancelled or past their deadline.
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

// speculate adds draft tokens to decoding sequences, as far as the step and their pages allow.
func (e *Engine) speculate() {
	if e.draft != nil && !e.draft.pays.try() {
		return
	}
	room := e.stepRows() - len(e.batch)
	for i := range e.batch {
		it := &e.batch[i]
		most := min(e.config.Speculate, room, it.Tokens-it.generated()-1, e.Limit()-len(it.tokens)-1)
		if most <= 0 || it.embed || it.Plain {
			continue
		}
		guess := most
		if e.draft == nil {
			it.draft = it.sequence.draft.guess(it.tokens, most)
			guess = len(it.draft)
		} else if it.sequence.draft.paused() {
			continue
		}
		it.grow(e.pages, (len(it.tokens)+guess+pageTokens-1)/pageTokens) // or as many pages as there are
		it.guesses = min(guess, len(it.pages)*pageTokens-len(it.tokens))
		it.draft = it.draft[:min(len(it.draft), it.guesses)]
		room -= it.guesses
	}
}

// batchTokens returns the number of tokens in the step so far.
func (e *Engine) batchTokens() int {
	n := 0
	for i := range e.batch {
		n += e.batch[i].count + e.batch[i].guesses
	}
	return n
}

// gather returns a batch as the model's input.
func (e *Engine) gather(batch []item) []paged.Sequence {
	slices.SortStableFunc(batch, together)
	e.seqs = e.seqs[:0]
	next := 0
	for i := range batch {
		it := &batch[i]
		it.next = next
		next += it.rows()
		tokens := it.tokens[it.computed : it.computed+it.count]
		if len(it.draft) > 0 {
			tokens = slices.Concat(tokens, it.draft)
		}
		e.seqs = append(e.seqs, paged.Sequence{Pages: it.pages, Start: it.computed, Tokens: tokens, Want: it.rows(),
			Adapter: it.adapter.packed()})
	}
	return e.seqs
}
