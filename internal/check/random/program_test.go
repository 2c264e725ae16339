package random

import (
	"flag"
	"testing"
)

var programs = flag.Int("programs", 0,
	"how many annotated programs to draw: go test ./internal/check/random -run Annotated -args -programs 500")

// TestAnnotatedPrograms: a program whose tensors say where they are is trained op by op, compiled, and on one
// device with the same values, gradients and parameters after two steps of AdamW; what is asked is done, or
// refused with its line.
func TestAnnotatedPrograms(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 10
	}
	if *programs > 0 {
		n = *programs
	}
	wrong := 0
	for seed := *from; seed < *from+uint64(n); seed++ {
		if err := DrawAnnotated(seed).CheckEager(); err != nil {
			wrong++
			t.Error(err)
		}
	}
	t.Logf("%d of %d are wrong", wrong, n)
}
