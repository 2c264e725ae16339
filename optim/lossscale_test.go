package optim_test

import (
	"testing"

	"github.com/galley-ml/galley/optim"
)

// TestLossScaleBelowOne: gradients that overflow at a scale of 1 are scaled down further.
func TestLossScaleBelowOne(t *testing.T) {
	l := optim.NewLossScale()
	for range 20 {
		l = l.Next(true)
	}
	if l.Scale != 1.0/16 {
		t.Errorf("after 20 overflows from 2^16: got a scale of %v, want 1/16", l.Scale)
	}
	for range 100 {
		l = l.Next(true)
	}
	if !(l.Scale > 0) {
		t.Errorf("the scale ends at %v", l.Scale)
	}
}
