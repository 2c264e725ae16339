//go:build !race

package paged_test

import (
	"runtime"
	"testing"

	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/nn"
)

// TestStepAllocates: a step leaves next to nothing for the collector, however many tokens it has. (The race
// detector throws away some of what is kept.)
func TestStepAllocates(t *testing.T) {
	m := pagedtest.Model(t, "llama", nn.Config{Scope: session(t), Seed: 7})
	for _, f := range packed.Formats() {
		p, err := paged.New(m, paged.Config{Weights: f, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		q := paged.Sequence{Pages: []int32{0, 1, 2, 3}, Tokens: make([]int32, 64), Want: 1}
		s := paged.NewStep(p, paged.NewCache(p, 4), 64)
		const steps = 20
		var before, after runtime.MemStats
		for range 3 { // memory is taken by the first
			s.Run([]paged.Sequence{q})
		}
		runtime.ReadMemStats(&before)
		for range steps {
			s.Run([]paged.Sequence{q})
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / steps; n > 16<<10 {
			t.Errorf("%s: a step allocates %d bytes, want at most %d", f, n, 16<<10)
		}
	}
}
