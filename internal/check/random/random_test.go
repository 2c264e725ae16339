package random

import (
	"flag"
	"testing"
)

var (
	long = flag.Bool("long", false,
		"draw as many models as -runs says: go test ./internal/check/random -run RandomModels -timeout 0 -args "+
			"-long -runs 5000")
	runs = flag.Int("runs", 5000, "how many models a long run draws")
	from = flag.Uint64("from", 0, "the first seed of a long run")
)

// TestRandomModels: whatever a user writes trains under whatever strategy as on one device, or it is refused
// for a reason that the generator knows; it draws none of those.
func TestRandomModels(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 10
	}
	first := uint64(0)
	if *long {
		n, first = *runs, *from
	}
	wrong, diverged := 0, 0
	for seed := first; seed < first+uint64(n); seed++ {
		switch err := Draw(seed).Check(); {
		case Diverged(err):
			diverged++
		case err != nil:
			wrong++
			t.Error(err)
		}
	}
	t.Logf("%d of %d are wrong or refused, %d diverge on one device", wrong, n, diverged)
	if diverged > n/10 {
		t.Errorf("%d of %d diverge: nothing is compared", diverged, n)
	}
}

// TestFound is the seeds that were wrong once, with what they found.
func TestFound(t *testing.T) {
	for seed, what := range map[uint64]string{
		34859:  "zero gradients of two values from an earlier stage were merged, though the values lie apart",
		125639: "a stage received a gradient in another layout than that of the value it is of",
	} {
		if err := Draw(seed).Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
