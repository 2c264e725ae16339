package engine

// draft guesses the tokens that come next: those that followed the last tokens where they stood before. A
// step computes them with the next token; what the sampler then chooses decides, so a wrong guess costs time
// and never changes a token. A sequence whose guesses are mostly wrong stops guessing for a while.
type draft struct {
	right float64 // share of the guesses that were right, of late
	pause int     // tokens until the next try
}

const (
	// draftPaying is the least share of right guesses for which computing them costs less than it saves.
	draftPaying = 0.3
	// draftPause is for how many tokens a sequence does not guess after that.
	draftPause = 32
	// The longest and shortest runs of last tokens that are looked for.
	longestRun, shortestRun = 4, 2
	// draftReach is how far back is looked.
	draftReach = 4096
)

// guess is up to most tokens that may come after tokens.
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

// paused reports whether a sequence does not guess; each time counts as a token.
func (d *draft) paused() bool {
	if d.pause == 0 {
		return false
	}
	d.pause--
	return true
}

// repeated returns the first n tokens of a run that continues as it began: a text that repeats a short run is
// guessed as far as one that repeats a long one.
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

// learn notes how many of the guesses were right.
func (d *draft) learn(guessed, right int) {
	if guessed == 0 {
		return
	}
	share := float64(right) / float64(guessed)
	d.right = d.right*0.8 + share*0.2
	if d.right < draftPaying {
		d.right, d.pause = 0.5, draftPause // half a chance when it tries again
	}
}
