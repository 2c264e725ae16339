package worker

import (
	"fmt"
	"time"
)

// Taken is the snapshots that this process has taken: how many, of how many steps, and how long they took.
type Taken struct {
	Count, Steps int64
	Took         time.Duration
	first        int64
}

func (t *Taken) add(step int64, took time.Duration) {
	if t.Count++; t.Count == 1 {
		t.first = step
	}
	t.Steps, t.Took = step-t.first+1, t.Took+took
}

func (t Taken) String() string {
	return fmt.Sprintf("%d snapshots after %d steps, %.1f ms each", t.Count, t.Steps,
		1e3*t.Took.Seconds()/float64(max(1, t.Count)))
}
