package search

import "math"

// Partition divides layers into stages so that the slowest stage is as fast as possible. cost is the time of
// a stage that holds the layers [from, to); it must not decrease as the range grows, and is infinite if the
// stage cannot hold them. Every stage gets at least one layer. It returns the number of layers of each stage
// and the time of the slowest; nil if no division is possible.
//
// It is dynamic programming over (stages, layers).
func Partition(stages, layers int, cost func(stage, from, to int) float64) (sizes []int, worst float64) {
	if stages < 1 || layers < stages {
		return nil, math.Inf(1)
	}
	best := make([][]float64, stages+1) // best[k][i]: layers before i on the first k stages
	cut := make([][]int, stages+1)
	for k := range best {
		best[k], cut[k] = make([]float64, layers+1), make([]int, layers+1)
		for i := range best[k] {
			best[k][i] = math.Inf(1)
		}
	}
	best[0][0] = 0
	for k := 1; k <= stages; k++ {
		for i := k; i <= layers-(stages-k); i++ {
			best[k][i], cut[k][i] = lastCut(best[k-1], k-1, i, cost)
		}
	}
	worst = best[stages][layers]
	if math.IsInf(worst, 1) {
		return nil, worst
	}
	return unwind(cut, stages, layers), worst
}

// lastCut finds where stage k, which ends at i, should begin. An earlier begin makes the stage slower, so the
// scan ends where the stage alone is slower than the best so far.
func lastCut(before []float64, k, i int, cost func(stage, from, to int) float64) (float64, int) {
	if k == 0 {
		return cost(0, 0, i), 0
	}
	best, at := math.Inf(1), k
	for c := i - 1; c >= k; c-- {
		own := cost(k, c, i)
		if own >= best {
			break
		}
		if t := math.Max(before[c], own); t < best {
			best, at = t, c
		}
	}
	return best, at
}

func unwind(cut [][]int, stages, layers int) []int {
	sizes := make([]int, stages)
	for k, i := stages, layers; k > 0; k-- {
		sizes[k-1] = i - cut[k][i]
		i = cut[k][i]
	}
	return sizes
}
