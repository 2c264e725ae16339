package plan

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/internal/pass"
)

// TestLoopCosts: a measured host prices loops, and what it lacks is as usual.
func TestLoopCosts(t *testing.T) {
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-12 }
	c := (&Host{Stream: 20e9, Rate: 100e9}).LoopCosts()
	if !near(c.Far, 0.05) || !near(c.Near, 0.015) || !near(c.Instr, 0.02) {
		t.Errorf("20 GB/s and 100 GFLOP/s: got %+v", c)
	}
	if c := (&Host{}).LoopCosts(); c != pass.UsualCosts {
		t.Errorf("nothing measured: got %+v, want %+v", c, pass.UsualCosts)
	}
}
