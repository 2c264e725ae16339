package bench

import (
	"slices"
	"time"
)

// Timing is repeated measurements of the same work, in milliseconds.
type Timing struct {
	BestMS   float64 `json:"best_ms"`
	MedianMS float64 `json:"median_ms"`
	Runs     int     `json:"runs"`
}

// measure runs f warm times unmeasured, then runs times.
func measure(warm, runs int, f func() error) (Timing, error) {
	for range warm {
		if err := f(); err != nil {
			return Timing{}, err
		}
	}
	ms := make([]float64, runs)
	for i := range ms {
		start := time.Now()
		if err := f(); err != nil {
			return Timing{}, err
		}
		ms[i] = milliseconds(time.Since(start))
	}
	return timingOf(ms), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timingOf sorts measurements.
func timingOf(ms []float64) Timing {
	slices.Sort(ms)
	return Timing{BestMS: ms[0], MedianMS: ms[len(ms)/2], Runs: len(ms)}
}
