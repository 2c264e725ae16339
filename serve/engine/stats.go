package engine

import "time"

// Stats counts what an engine has done so far, and its current state.
type Stats struct {
	Running, Waiting int
	// Pages is the number of pages, UsedPages how many of them sequences hold.
	Pages, UsedPages int
	// PrefixQueries counts prompt tokens that were searched in cached pages, PrefixHits those that were found.
	PrefixQueries, PrefixHits int64
	Preemptions               int64
	// PromptTokens counts the prompt tokens of all accepted requests, GeneratedTokens the generated ones.
	PromptTokens, GeneratedTokens int64
	Steps                         int64
	// Guessed counts draft tokens, GuessedRight those that were accepted.
	Guessed, GuessedRight int64
}

// StepStats describes one step: the number of tokens it computed, and its time.
type StepStats struct {
	Tokens int
	Took   time.Duration
}

// Stats returns a snapshot of the statistics.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Running, s.Waiting, s.UsedPages = len(e.running), len(e.queue.list), e.pages.used()
	return s
}
