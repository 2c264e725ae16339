package engine

import (
	"testing"
	"time"
)

// TestPace: beside sequences that are continued a prompt gets about as long as a step without one, longer
// where many wait, however many sequences a step without prompts was last seen with.
func TestPace(t *testing.T) {
	const room, ms = 256, time.Millisecond
	cost := func(continued, prompts int) time.Duration {
		return time.Duration(6+continued)*ms + time.Duration(prompts)*ms/2
	}
	var p pace
	if got := p.chunk(room, 3, 1); got != room {
		t.Errorf("nothing is known: got %d, want %d", got, room)
	}
	p.note(cost(0, room), 0, room)
	p.note(cost(1, 0), 1, 0)
	if got := p.chunk(room, 0, 1); got != room {
		t.Errorf("nobody is continued: got %d, want %d", got, room)
	}
	for _, c := range []struct{ continued, waiting, least, most int }{
		{1, 1, 9, 13}, {8, 1, 14, 24}, {8, 9, 32, 56}, {8, 100, 80, 140}, {64, 1, 50, 115},
	} {
		for range 50 { // steps that all read prompts
			n := p.chunk(room, c.continued, c.waiting)
			p.note(cost(c.continued, n), c.continued, n)
		}
		if got := p.chunk(room, c.continued, c.waiting); got < c.least || got > c.most {
			t.Errorf("%d continued, %d wait: got %d tokens, want %d to %d", c.continued, c.waiting, got, c.least,
				c.most)
		}
	}
	if got := p.chunk(5, 8, 1); got != 5 {
		t.Errorf("little room: got %d, want 5", got)
	}
}

// TestPaceFast: one step that went by in no time does not make the next one long.
func TestPaceFast(t *testing.T) {
	var p pace
	p.note(128*time.Millisecond, 0, 128)
	p.note(16*time.Millisecond, 8, 0)
	before := p.chunk(256, 8, 1)
	for range 2 {
		p.note(time.Millisecond, 8, 16)
	}
	if got := p.chunk(256, 8, 1); got > 2*before {
		t.Errorf("got %d tokens after %d, want at most twice as many", got, before)
	}
}
