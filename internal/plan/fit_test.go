package plan

import (
	"math"
	"testing"
)

// TestFit finds constants that made observations, as far as they can be told apart.
func TestFit(t *testing.T) {
	want := Constants{Compute: 0.4, Communication: 1.2}
	var obs []Observation
	for _, p := range []Parts{{Compute: 1}, {Compute: 1, TP: 0.5}, {Compute: 0.8, DP: 0.9},
		{Compute: 0.7, PP: 0.1,
			Bubble: 0.4}} {
		o := Observation{Parts: p}
		o.Measured = o.with(want)
		obs = append(obs, o)
	}
	got, spread := Fit(obs)
	if math.Abs(got.Compute/want.Compute-1) > 0.1 || math.Abs(got.Communication/want.Communication-1) > 0.2 ||
		spread > 0.15 {
		t.Errorf("got %+v ±%.2f, want %+v", got, spread, want)
	}
	one, _ := Fit(obs[:1])
	if math.Abs(one.Compute/0.4-1) > 0.05 || math.Abs(one.Communication/one.Compute-1) > 0.05 {
		t.Errorf("one step tells one factor: got %+v", one)
	}
	if c, _ := Fit(nil); c != (Constants{}) {
		t.Errorf("of nothing: %+v", c)
	}
}
