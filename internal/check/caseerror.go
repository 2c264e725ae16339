package check

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
)

// caseError returns the error of a result relative to the recorded one, and where it is largest. NaN must
// match NaN and an infinity the same infinity, where a recorded number beyond the range of got's dtype counts
// as infinite; integers and truth values must be equal: otherwise the error is infinite. Other numbers are
// compared in norm.
func caseError(got, want array.Array) (e float64, at string) {
	var diff, norm, worst float64
	exact := !want.DType().IsFloat()
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if got.DType() == array.F32 {
			w = float64(float32(w))
		}
		d := g - w
		switch {
		case g == w || g != g && w != w:
			d = 0
		case exact || d != d || math.IsInf(d, 0):
			return math.Inf(1), fmt.Sprintf(", element %d: got %v, want %v", i, g, w)
		}
		if d*d > worst {
			worst, at = d*d, fmt.Sprintf(", element %d: got %v, want %v", i, g, w)
		}
		diff += d * d
		if !math.IsInf(w, 0) && w == w {
			norm += w * w
		}
	}
	if norm == 0 {
		return math.Sqrt(diff), at
	}
	return math.Sqrt(diff / norm), at
}
