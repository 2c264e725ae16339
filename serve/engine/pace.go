package engine

import "time"

// pace keeps steps short while sequences are being continued: a prompt is read in chunks that take no more
// time than a step without one does, so that a long prompt does not hold the others up. It decides only when
// something is computed, never what comes of it.
type pace struct {
	step  float64 // seconds of a step without prompts
	token float64 // seconds of a prompt's token beyond that
}

// leastChunk is how many tokens of prompts a step takes at least: fewer would read all weights for little.
const leastChunk = 8

// chunk returns how many tokens of prompts the next step takes, beside so many that are being continued.
func (p *pace) chunk(room, continued int) int {
	if continued == 0 || p.step == 0 || p.token == 0 {
		return max(0, room)
	}
	return max(0, min(room, max(leastChunk, int(p.step/p.token))))
}

// note learns from a step.
func (p *pace) note(took time.Duration, continued, prompts int) {
	t := took.Seconds()
	switch {
	case prompts == 0 && continued > 0:
		p.step = smooth(p.step, t)
	case prompts >= leastChunk:
		p.token = smooth(p.token, max(0, t-p.step)/float64(prompts))
	}
}

// smooth moves an average a fifth of the way to what was seen.
func smooth(old, seen float64) float64 {
	if old == 0 {
		return seen
	}
	return old + (seen-old)/5
}
