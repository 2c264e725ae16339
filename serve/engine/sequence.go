package engine

import (
	"time"

	"github.com/galley-ml/galley/internal/sample"
)

// sequence is one continuation of a request.
type sequence struct {
	*request
	index   int
	arrival uint64
	// after, if not nil, is the first continuation of the request, whose prompt this one shares.
	after *sequence

	tokens   []int32 // the prompt and the generated tokens
	computed int     // the number of tokens with keys and values in pages
	pages    []int32
	hashes   []blockHash // of the full pages
	drafted  int         // the number of tokens with keys and values of the draft model
	cached   int
	waited   time.Duration // time before its first step
	began    bool          // its prompt was computed at least once
	ended    bool

	adapter *adapter
	sampler *sample.Sampler
	text    text
	mask    Mask
	embed   bool
	draft   draft
}

// left returns how many tokens must be computed before the next one can be sampled.
func (s *sequence) left() int { return len(s.tokens) - s.computed }

// generated returns the number of tokens after the prompt.
func (s *sequence) generated() int { return len(s.tokens) - len(s.Prompt) }

// need returns the number of pages for the tokens so far and the next one.
func (s *sequence) need() int { return (len(s.tokens) + pageTokens) / pageTokens }

// hash returns the hash of full page i.
func (s *sequence) hash(i int) blockHash {
	for len(s.hashes) <= i {
		n := len(s.hashes)
		before := rootHash(s.salt())
		if n > 0 {
			before = s.hashes[n-1]
		}
		s.hashes = append(s.hashes, before.next(s.tokens[n*pageTokens:(n+1)*pageTokens]))
	}
	return s.hashes[i]
}

// match finds cached pages of the sequence's prefix. At least one token is left to compute, because its
// logits are needed.
func (s *sequence) match(p *pages) {
	for len(s.pages) < (len(s.tokens)-1)/pageTokens {
		i, ok := p.find(s.hash(len(s.pages)))
		if !ok {
			break
		}
		s.pages = append(s.pages, i)
	}
	s.computed = len(s.pages) * pageTokens
	if !s.began {
		s.cached = s.computed
	}
}

// grow allocates pages until the sequence has that many; it reports whether there were enough.
func (s *sequence) grow(p *pages, pages int) bool {
	for len(s.pages) < pages {
		i, ok := p.take()
		if !ok {
			return false
		}
		s.pages = append(s.pages, i)
	}
	return true
}

// advance records that n more tokens were computed, and publishes the pages that became full.
func (s *sequence) advance(p *pages, n int) {
	first := s.computed / pageTokens
	s.computed += n
	for i := first; i < s.computed/pageTokens; i++ {
		p.publish(s.pages[i], s.hash(i))
	}
}

// leave releases all pages.
func (s *sequence) leave(p *pages) {
	p.release(s.pages)
	s.pages, s.computed, s.drafted = nil, 0, 0
}
