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
	// draft is guesses that follow, of which there are at most guesses, next the step's first row of logits that
	// is the sequence's.
	draft   []int32
	guesses int
	next    int
	// ahead is how many steps a backend takes of the sequence, choosing its tokens; 0 is that the host chooses.
	ahead int
}

// rows returns how many rows of logits are the item's: none where tokens are left after it.
func (it *item) rows() int {
	if it.left() != it.count {
		return 0
	}
	return 1 + len(it.draft)
}

// schedule chooses what the next step computes: first one token of every sequence that is being continued,
// then chunks of prompts, then prompts of sequences that begin, up to the budget.
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
	room := e.pace.chunk(e.config.Budget-e.batchTokens(), len(e.batch))
	for _, s := range order {
		if s.left() > 1 && room > 0 {
			room -= e.put(s, room)
		}
	}
	if len(order) == len(e.running) { // nobody had to give pages back
		e.admit(room)
	}
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool { return s.pages == nil })
	e.goAhead()
}

// ranks reports whether a keeps its pages longer than b.
func (e *Engine) ranks(a, b *sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.arrival < b.arrival
}

// continueAll puts one token of each sequence that is being continued into the step. Where there is no page
// for it, the last in order gives its own back.
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
	e.batch = append(e.batch, item{sequence: s, count: n})
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

// spare returns how many pages are left to those that run, so that a newcomer is not sent away at once.
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

// speculate adds guesses to the sequences that are being continued, where the step and their pages have room.
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
		it.grow(e.pages, (len(it.tokens)+guess+pageTokens-1)/pageTokens) // or what there is
		it.guesses = min(guess, len(it.pages)*pageTokens-len(it.tokens))
		it.draft = it.draft[:min(len(it.draft), it.guesses)]
		room -= it.guesses
	}
}

// batchTokens returns how many tokens the step has so far.
func (e *Engine) batchTokens() int {
	n := 0
	for i := range e.batch {
		n += e.batch[i].count + e.batch[i].guesses
	}
	return n
}

// gather returns a batch as the model takes it.
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
