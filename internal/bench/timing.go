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
		ms[i] = float64(time.Since(start)) / float64(time.Millisecond)
	}
	slices.Sort(ms)
	return Timing{BestMS: ms[0], MedianMS: ms[len(ms)/2], Runs: runs}, nil
}
