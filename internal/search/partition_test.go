package search

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Partition is as good as the best of all cuts, for layers and stages of any speed and stages that cannot
// hold much.
func TestPartitionAgainstAllCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 9).Draw(t, "layers")
		stages := rapid.IntRange(1, layers).Draw(t, "stages")
		time := rapid.SliceOfN(rapid.Float64Range(0, 9), layers, layers).Draw(t, "time")
		speed := rapid.SliceOfN(rapid.Float64Range(0.5, 2), stages, stages).Draw(t, "speed")
		most := rapid.SliceOfN(rapid.IntRange(1, layers), stages, stages).Draw(t, "most")
		cost := func(k, from, to int) float64 {
			if to-from > most[k] {
				return math.Inf(1)
			}
			sum := 0.0
			for _, x := range time[from:to] {
				sum += x
			}
			return sum / speed[k]
		}
		best := math.Inf(1)
		var all func(k, from int, worst float64)
		all = func(k, from int, worst float64) {
			if k == stages {
				if from == layers {
					best = math.Min(best, worst)
				}
				return
			}
			for to := from + 1; to <= layers; to++ {
				all(k+1, to, math.Max(worst, cost(k, from, to)))
			}
		}
		all(0, 0, 0)
		sizes, worst := Partition(stages, layers, cost)
		if math.IsInf(best, 1) != (sizes == nil) || !math.IsInf(best, 1) && math.Abs(worst-best) > 1e-12 {
			t.Fatalf("got %v (%v), want %v", worst, sizes, best)
		}
		at := 0
		for k, n := range sizes {
			if n < 1 || cost(k, at, at+n) > worst {
				t.Fatalf("stage %d of %v takes more than %v", k, sizes, worst)
			}
			at += n
		}
		if sizes != nil && at != layers {
			t.Fatalf("%v: %d layers", sizes, at)
		}
	})
}
