package check

import (
	"fmt"
	"io"
	"math"

	"github.com/galley-ml/galley/array"
)

// Report counts cases and prints those that fail.
type Report struct {
	w              io.Writer
	passed, failed int
	verbose        bool
}

// Passed and Failed count the cases so far.
func (r *Report) Passed() int { return r.passed }

// Failed counts the cases that did not hold.
func (r *Report) Failed() int { return r.failed }

// add counts one case; faults are what was wrong with it.
func (r *Report) add(name string, faults []string, note string) {
	if len(faults) == 0 {
		r.passed++
		if r.verbose {
			fmt.Fprintf(r.w, "ok    %s  %s\n", name, note)
		}
		return
	}
	r.failed++
	for _, f := range faults {
		fmt.Fprintf(r.w, "FAIL  %s: %s\n", name, f)
	}
}

// note prints something worth knowing that is no case.
func (r *Report) note(text string) { fmt.Fprintln(r.w, "note:", text) }

// last prints the line that ends every check.
func (r *Report) last() { fmt.Fprintf(r.w, "%d passed, %d failed\n", r.passed, r.failed) }

// relativeError is ‖got − want‖ / ‖want‖; where want is zero, the norm of got itself.
func relativeError(got, want array.Array) float64 {
	if !got.Shape().Equal(want.Shape()) {
		return math.Inf(1)
	}
	var diff, norm float64
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w {
			norm += finite(w) * finite(w)
			continue
		}
		diff += (g - w) * (g - w)
		norm += w * w
	}
	if norm == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff) / math.Sqrt(norm)
}

func finite(x float64) float64 {
	if math.IsInf(x, 0) {
		return 0
	}
	return x
}
