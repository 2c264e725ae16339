//go:build linux || darwin

package worker

import (
	"testing"
	"time"
)

// TestPace: copies cost at most 2.5 % of the steps, and one that took long for others' sake changes nothing.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		cost, step time.Duration
		want       int
	}{
		{time.Millisecond, 100 * time.Millisecond, 1}, {2400 * time.Microsecond, 10 * time.Millisecond, 10},
		{time.Second, time.Millisecond, most},
	} {
		p, now, step := &pace{}, time.Now(), int64(0)
		for i := range 20 {
			n := max(1, p.every)
			now, step = now.Add(time.Duration(n)*test.step), step+int64(n)
			cost := test.cost
			if i%5 == 4 {
				cost *= 100
			}
			p.took(now, now.Add(cost), step)
			now = now.Add(cost)
		}
		if p.every != test.want {
			t.Errorf("%v of a step of %v: every %d steps, want %d", test.cost, test.step, p.every, test.want)
		}
	}
}

// TestSnapshotStats: snapshots of every second step, from the first that was taken on.
func TestSnapshotStats(t *testing.T) {
	var x SnapshotStats
	for step := int64(3); step <= 9; step += 2 {
		x.add(step, 2*time.Millisecond)
	}
	if got, want := x.String(), "4 snapshots after 7 steps, 2.0 ms each"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
