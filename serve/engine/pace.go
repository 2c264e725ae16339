package engine

import "time"

// pace keeps steps short while sequences are decoding: a prompt is split into chunks that take a little less
// time than a step without one, so that a long prompt does not delay the others. If many sequences wait for
// their first token, chunks take up to four steps longer, by the number waiting per decoding sequence. It
// decides only when tokens are computed, never their values.
type pace struct {
	alone     float64 // average seconds of the last steps without prompts
	continued int     // the number of decoding sequences in those
	token     float64 // seconds of one more token in a step
}

// leastChunk is the least number of prompt tokens in a step: fewer would not be worth reading all weights.
// From manyTokens on the time to read the weights does not matter. A chunk takes chunkSteps times a step
// without prompts, and up to chunkMost more if many sequences wait.
const (
	leastChunk = 8
	manyTokens = 64
	chunkSteps = 0.8
	chunkMost  = 4
)

// step estimates the seconds of a step that decodes some number of sequences: those beyond the number in the
// last measurement cost about as much as prompt tokens.
func (p *pace) step(continued int) float64 {
	return max(p.alone/4, p.alone+float64(continued-p.continued)*p.token)
}

// chunk returns how many prompt tokens the next step computes, at most room, besides continued decoding
// sequences, while waiting sequences wait for their first token.
func (p *pace) chunk(room, continued, waiting int) int {
	if continued == 0 || p.alone == 0 || p.token == 0 {
		return max(0, room)
	}
	times := chunkSteps + min(chunkMost, float64(max(0, waiting-1))/float64(continued))
	return max(0, min(room, max(leastChunk, int(times*p.step(continued)/p.token))))
}

// note records the time of a step.
func (p *pace) note(took time.Duration, continued, prompts int) {
	t := took.Seconds()
	switch {
	case prompts == 0 && continued > 0:
		if continued != p.continued && p.alone > 0 {
			p.alone = (p.step(continued) + t) / 2
		} else {
			p.alone = smooth(p.alone, t)
		}
		p.continued = continued
	case prompts >= manyTokens && continued == 0, prompts >= leastChunk && (continued > 0 || p.token == 0):
		if continued > 0 {
			t -= p.step(continued)
		}
		// A step that was faster than those before does not mean that tokens cost nothing.
		p.token = smooth(p.token, max(p.token/2, t/float64(prompts)))
	}
}

// smooth moves an average by a fifth of the way to a new value.
func smooth(old, seen float64) float64 {
	if old == 0 {
		return seen
	}
	return old + (seen-old)/5
}
