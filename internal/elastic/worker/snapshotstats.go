package worker

import (
	"fmt"
	"time"
)

// SnapshotStats summarizes the snapshots that this process has taken: their number, the number of steps, and
// their duration.
type SnapshotStats struct {
	Count, Steps int64
	Took         time.Duration
	first        int64
}

func (t *SnapshotStats) add(step int64, took time.Duration) {
	if t.Count++; t.Count == 1 {
		t.first = step
	}
	t.Steps, t.Took = step-t.first+1, t.Took+took
}

func (t SnapshotStats) String() string {
	return fmt.Sprintf("%d snapshots after %d steps, %.1f ms each", t.Count, t.Steps,
		1e3*t.Took.Seconds()/float64(max(1, t.Count)))
}
