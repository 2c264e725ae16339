package check

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// relativeError returns ‖got − want‖ / ‖want‖; where want is zero, the norm of got itself.
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
