package models

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
)

// TestRouterStats: loads are means over rows, entropy is 1 where they are even, and what is beyond a capacity
// is dropped.
func TestRouterStats(t *testing.T) {
	loads := []array.Array{
		array.FromSlice([]float32{0.5, 0.5, 0.5, 0.5}, 2, 2),
		array.FromSlice([]float32{1, 0, 0.5, 0.5}, 2, 2),
		array.FromSlice([]float32{1, 0, 1, 0}, 2, 2),
	}
	got := RouterStats(loads, 8, 1.25) // 16 choices, 10 of an expert
	for i, want := range []RouterStat{{Loads: []float64{0.5, 0.5}, Entropy: 1},
		{Loads: []float64{0.75, 0.25}, Entropy: 0.8112781244591328, Dropped: 2.0 / 16},
		{Loads: []float64{1, 0}, Dropped: 6.0 / 16}} {
		x := got[i]
		if x.Loads[0] != want.Loads[0] || x.Loads[1] != want.Loads[1] || math.Abs(x.Entropy-want.Entropy) > 1e-12 ||
			math.Abs(x.Dropped-want.Dropped) > 1e-12 {
			t.Errorf("router %d: got %+v, want %+v", i, x, want)
		}
	}
}
