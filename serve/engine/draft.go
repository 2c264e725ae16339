package engine

// draft proposes tokens for speculative decoding from the sequence itself (prompt lookup): those that
// followed the last tokens at an earlier place. A step keeps those that the sampler then chooses, so a wrong
// one costs time and never changes a token. A sequence whose draft tokens are mostly wrong pauses.
type draft struct {
	right float64 // moving average of the share of accepted draft tokens
	pause int     // tokens until the next draft
}

const (
	// draftPaying is the least share of accepted draft tokens at which computing them saves time.
	draftPaying = 0.3
	// draftPause is the number of tokens without drafts after that.
	draftPause = 32
	// The longest and shortest suffix of the tokens that is searched.
	longestRun, shortestRun = 4, 2
	// draftReach is the number of last tokens that are searched.
	draftReach = 4096
)

// guess returns up to most draft tokens that may follow tokens.
func (d *draft) guess(tokens []int32, most int) []int32 {
	if most <= 0 {
		return nil
	}
	if d.paused() {
		return nil
	}
	first := max(0, len(tokens)-draftReach)
	for n := longestRun; n >= shortestRun; n-- {
		if len(tokens)-first <= n {
			continue
		}
		last := tokens[len(tokens)-n:]
		for i := len(tokens) - n - 1; i >= first; i-- {
			if same(tokens[i:i+n], last) {
				return repeated(tokens[i+n:], most)
			}
		}
	}
	return nil
}

// paused reports whether the sequence pauses drafting; each call counts as a token.
func (d *draft) paused() bool {
	if d.pause == 0 {
		return false
	}
	d.pause--
	return true
}

// repeated returns n tokens of a run that is repeated: text that repeats a short run is drafted as far as
// text that repeats a long one.
func repeated(run []int32, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = run[i%len(run)]
	}
	return out
}

func same(a, b []int32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// learn updates the share of accepted draft tokens.
func (d *draft) learn(guessed, right int) {
	if guessed == 0 {
		return
	}
	share := float64(right) / float64(guessed)
	d.right = d.right*0.8 + share*0.2
	if d.right < draftPaying {
		d.right, d.pause = 0.5, draftPause // starts again with an average of one half
	}
}
