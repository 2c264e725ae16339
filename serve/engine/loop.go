package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/sample"
)

// loop runs steps while there are requests.
func (e *Engine) loop() {
	defer close(e.done)
	for {
		e.mu.Lock()
		for !e.closed && len(e.running)+len(e.queue.list) == 0 {
			e.wake.Wait()
		}
		if e.closed {
			e.abandon(ErrClosed)
			e.mu.Unlock()
			return
		}
		e.schedule()
		e.mu.Unlock()
		e.compute()
	}
}

// abandon ends all requests with an error.
func (e *Engine) abandon(err error) {
	for _, s := range slices.Concat(e.running, e.queue.list) {
		s.end(err)
		e.finish(s)
	}
	e.running, e.queue.list = nil, nil
	e.wake.Broadcast()
}

// compute runs one step and passes its tokens to the requests.
func (e *Engine) compute() {
	if len(e.batch) == 0 {
		return
	}
	began := time.Now()
	if e.draft != nil {
		e.draft.guess(e.batch)
	}
	results, err := e.results()
	took := time.Since(began)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.failed = err
		e.abandon(err)
		return
	}
	tokens, prompts, steps := 0, 0, 1
	for i := range e.batch {
		it := &e.batch[i]
		tokens += it.count + len(it.draft) + max(0, it.ahead-1)
		steps = max(steps, it.ahead)
		if it.count > 1 || !it.began {
			prompts += it.count
		}
		e.queue.served[it.Tenant] += float64(it.count)
		e.apply(it, results[i])
	}
	e.pace.note(took/time.Duration(steps), tokens-prompts, prompts)
	e.payoff(took, prompts, results)
	e.stats.Steps += int64(steps)
	if e.config.Observe != nil {
		e.config.Observe(StepStats{Tokens: tokens, Took: took})
	}
	e.wake.Broadcast()
}

// payoff passes the time of a step without prompts to the drafter's decision whether drafts pay.
func (e *Engine) payoff(took time.Duration, prompts int, results []result) {
	if e.draft == nil || prompts > 0 || e.draft.read {
		return
	}
	tokens, guesses := 0, false
	for i := range e.batch {
		tokens += len(results[i].choices)
		guesses = guesses || len(e.batch[i].draft) > 0
	}
	e.draft.pays.note(guesses, took, tokens)
}

// result is a step's result for one sequence: the sampled tokens, one more than there are accepted draft
// tokens.
type result struct {
	choices []sample.Choice
	done    bool // the mask allows no token after the last one
	hidden  []float32
	err     error
}

// apply applies the result of an item to its sequence.
func (e *Engine) apply(it *item, r result) {
	s := it.sequence
	wanted := it.rows() > 0
	s.advance(e.pages, it.count)
	if !wanted {
		return
	}
	s.began = true
	switch {
	case s.embed && r.err == nil:
		s.request.hidden = r.hidden
		s.end(nil)
		return
	case s.gone():
		return
	}
	if len(it.draft) > 0 {
		right := max(0, len(r.choices)-1)
		s.draft.learn(len(it.draft), right)
		if s.drafted > 0 { // the draft model's keys and values are valid up to the last accepted draft token
			s.drafted = min(s.drafted, len(s.tokens)+right)
		}
		e.stats.Guessed += int64(len(it.draft))
		e.stats.GuessedRight += int64(right)
	}
	for i, c := range r.choices {
		if i > 0 { // the draft token before it was accepted: its keys and values are computed
			s.advance(e.pages, 1)
		}
		if e.emit(s, c, r.done && i == len(r.choices)-1); s.ended {
			return
		}
	}
	if r.err != nil {
		s.end(r.err)
	}
}

// choose samples the tokens of every item of a batch; row returns the hidden state of a row of logits.
func (e *Engine) choose(batch []item, logits []float32, row func(i int) []float32) []result {
	results := make([]result, len(batch))
	vocab := e.model.Config().Vocab
	e.model.Pool().Run(len(batch), func(i int) {
		it := &batch[i]
		n := it.rows()
		if n > 0 && it.embed {
			results[i].hidden = slices.Clone(row(it.next))
			return
		}
		results[i] = it.choose(logits[it.next*vocab:(it.next+n)*vocab], vocab)
	})
	return results
}

// choose samples row after row while draft tokens are accepted. A token that ends the sequence is the last.
func (it *item) choose(logits []float32, vocab int) (r result) {
	for i := range it.rows() {
		var allowed []uint64
		if it.mask != nil {
			allowed = it.mask.Allowed()
		}
		c, err := it.sampler.Choose(logits[i*vocab:(i+1)*vocab], allowed)
		if err != nil {
			r.err = err
			return r
		}
		r.choices = append(r.choices, c)
		if it.mask != nil {
			it.mask.Take(c.ID)
			if r.done = it.mask.Done(); r.done {
				return r
			}
		}
		if i == len(it.draft) || c.ID != it.draft[i] || slices.Contains(it.Stop, c.ID) {
			return r
		}
	}
	return r
}

// emit appends a token and passes it to the request; done means that no token can follow it.
func (e *Engine) emit(s *sequence, c sample.Choice, done bool) {
	s.tokens = append(s.tokens, c.ID)
	e.stats.GeneratedTokens++
	t := Token{Index: s.index, ID: c.ID, LogProb: c.LogProb, Top: c.Top, Cached: s.cached, Queued: s.waited}
	stopped := false
	if slices.Contains(s.Stop, c.ID) {
		t.Finish = FinishStop
	} else if t.Text, stopped = s.text.add(c.ID); stopped || done {
		t.Finish = FinishStop
	} else if s.generated() >= s.Tokens || len(s.tokens) >= e.Limit() {
		t.Finish = FinishLength
	}
	if t.Finish != "" && !stopped {
		t.Text += s.text.rest()
	}
	if t.Finish == "" {
		s.add(t, false)
		return
	}
	e.running = slices.DeleteFunc(e.running, func(r *sequence) bool { return r == s })
	e.finish(s)
	s.add(t, s.open == 0)
}

// IsBadRequest reports whether an error is the request's own fault, and which of its fields is at fault.
func IsBadRequest(err error) (param string, ok bool) {
	var b *BadRequest
	if errors.As(err, &b) {
		return b.Param, true
	}
	return "", false
}
