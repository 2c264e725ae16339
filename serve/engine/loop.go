package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/sample"
)

// loop takes steps while there is something to compute.
func (e *Engine) loop() {
	defer close(e.done)
	for {
		e.mu.Lock()
		for !e.closed && len(e.running)+len(e.queue.list) == 0 {
			e.wake.Wait()
		}
		if e.closed {
			e.abandon()
			e.mu.Unlock()
			return
		}
		e.schedule()
		e.mu.Unlock()
		e.compute()
	}
}

// abandon ends everything.
func (e *Engine) abandon() {
	for _, s := range slices.Concat(e.running, e.queue.list) {
		s.end(ErrClosed)
		e.finish(s)
	}
	e.running, e.queue.list = nil, nil
	e.wake.Broadcast()
}

// compute takes one step and hands out what came of it.
func (e *Engine) compute() {
	if len(e.batch) == 0 {
		return
	}
	began := time.Now()
	choices, errs, hidden := e.choose(e.step.Run(e.gather()))
	took := time.Since(began)
	e.mu.Lock()
	defer e.mu.Unlock()
	next, tokens, prompts := 0, 0, 0
	for _, it := range e.batch {
		s := it.sequence
		wanted := s.left() == it.count
		tokens += it.count
		if it.count > 1 || !s.began {
			prompts += it.count
		}
		s.advance(e.pages, it.count)
		e.queue.served[s.Tenant] += float64(it.count)
		if !wanted {
			continue
		}
		s.began = true
		switch {
		case errs[next] != nil:
			s.end(errs[next])
		case s.embed:
			s.request.hidden = hidden[next]
			s.end(nil)
		case !s.gone():
			e.emit(s, choices[next])
		}
		next++
	}
	e.pace.note(took, tokens-prompts, prompts)
	e.stats.Steps++
	if e.config.Observe != nil {
		e.config.Observe(StepStats{Tokens: tokens, Took: took})
	}
	e.wake.Broadcast()
}

// choose samples every row of logits.
func (e *Engine) choose(logits []float32) (choices []sample.Choice, errs []error, hidden [][]float32) {
	var rows []*sequence
	for _, it := range e.batch {
		if it.left() == it.count {
			rows = append(rows, it.sequence)
		}
	}
	vocab := e.model.Config().Vocab
	choices, errs, hidden = make([]sample.Choice, len(rows)), make([]error, len(rows)), make([][]float32, len(rows))
	e.model.Pool().Run(len(rows), func(i int) {
		s := rows[i]
		if s.embed {
			hidden[i] = slices.Clone(e.step.Row(i))
			return
		}
		var allowed []uint64
		if s.mask != nil {
			allowed = s.mask.Allowed()
		}
		choices[i], errs[i] = s.sampler.Choose(logits[i*vocab:(i+1)*vocab], allowed)
		if errs[i] == nil && s.mask != nil {
			s.mask.Take(choices[i].ID)
		}
	})
	return choices, errs, hidden
}

// emit hands out a token.
func (e *Engine) emit(s *sequence, c sample.Choice) {
	s.tokens = append(s.tokens, c.ID)
	e.stats.GeneratedTokens++
	t := Token{Index: s.index, ID: c.ID, LogProb: c.LogProb, Top: c.Top, Cached: s.cached, Queued: s.waited}
	stopped := false
	if slices.Contains(s.Stop, c.ID) {
		t.Finish = FinishStop
	} else if t.Text, stopped = s.text.add(c.ID); stopped {
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
