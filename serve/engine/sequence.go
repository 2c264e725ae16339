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
	// after, where not nil, is the first continuation of the request, whose prompt this one shares.
	after *sequence

	tokens   []int32 // the prompt and what was generated
	computed int     // of how many the keys and values lie in pages
	pages    []int32
	hashes   []blockHash // of the pages that are full
	drafted  int         // of how many tokens the draft model has keys and values
	cached   int
	waited   time.Duration // before its first step
	began    bool          // its prompt was read at least once
	ended    bool

	adapter *adapter
	sampler *sample.Sampler
	text    text
	mask    Mask
	embed   bool
	draft   draft
}

// left returns how many tokens are to be computed before the next is known.
func (s *sequence) left() int { return len(s.tokens) - s.computed }

// generated returns how many tokens there are after the prompt.
func (s *sequence) generated() int { return len(s.tokens) - len(s.Prompt) }

// need returns how many pages the tokens so far and the next one take.
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

// match holds the pages that are known for the sequence's first tokens. At least one token is left to
// compute: its logits are wanted.
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

// grow takes pages until the sequence has room for its tokens; it reports whether there were enough.
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

// advance notes that n more tokens were computed, and lets others have the pages that became full.
func (s *sequence) advance(p *pages, n int) {
	first := s.computed / pageTokens
	s.computed += n
	for i := first; i < s.computed/pageTokens; i++ {
		p.publish(s.pages[i], s.hash(i))
	}
}

// leave gives all pages back.
func (s *sequence) leave(p *pages) {
	p.release(s.pages)
	s.pages, s.computed, s.drafted = nil, 0, 0
}
