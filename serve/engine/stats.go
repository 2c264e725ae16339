package engine

import "time"

// Stats is what an engine has done so far, and what it does now.
type Stats struct {
	Running, Waiting int
	// Pages is how many there are, UsedPages how many sequences hold.
	Pages, UsedPages int
	// PrefixQueries is the tokens of prompts that were looked for in pages, PrefixHits those that were there.
	PrefixQueries, PrefixHits int64
	Preemptions               int64
	// PromptTokens counts those of all requests that were taken, GeneratedTokens what was generated.
	PromptTokens, GeneratedTokens int64
	Steps                         int64
	// Guessed counts tokens that were guessed, GuessedRight those that came to be.
	Guessed, GuessedRight int64
}

// StepStats is one step: how many tokens it computed, and how long that took.
type StepStats struct {
	Tokens int
	Took   time.Duration
}

// Stats returns a snapshot.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Running, s.Waiting, s.UsedPages = len(e.running), len(e.queue.list), e.pages.used()
	return s
}
