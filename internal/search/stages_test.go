package search

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Layers that are alike are cut as well by counting as by dynamic programming.
func TestLevelled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.IntRange(2, 12).Draw(t, "chunks")
		layers := make([]float64, rapid.IntRange(chunks, 60).Draw(t, "layers"))
		one := rapid.Float64Range(0.1, 2).Draw(t, "layer")
		for i := range layers {
			layers[i] = one
		}
		l := newRankLoad(layers, rapid.Float64Range(0, 5).Draw(t, "embedding"),
			rapid.Float64Range(0, 9).Draw(t, "head"))
		cost := func(c, from, to int) float64 {
			t := float64(to-from) * one
			if c == 0 {
				t += l.embedding
			}
			if c == chunks-1 {
				t += l.head
			}
			return t
		}
		_, want := Partition(chunks, len(layers), cost)
		sizes := levelled(chunks, l)
		worst, at := 0.0, 0
		for c, n := range sizes {
			if n < 1 {
				t.Fatalf("chunk %d of %v is empty", c, sizes)
			}
			worst = math.Max(worst, cost(c, at, at+n))
			at += n
		}
		if at != len(layers) || math.Abs(worst-want) > 1e-6*want {
			t.Fatalf("%v (%d of %d layers) take %v, want %v", sizes, at, len(layers), worst, want)
		}
	})
}

// Layers of two kinds are cut as well by filling as by dynamic programming.
func TestFilled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.IntRange(2, 10).Draw(t, "chunks")
		layers := rapid.SliceOfN(rapid.SampledFrom([]float64{0.4, 1, 1.7}), chunks, 50).Draw(t, "layers")
		l := newRankLoad(layers, rapid.Float64Range(0, 5).Draw(t, "embedding"),
			rapid.Float64Range(0, 9).Draw(t, "head"))
		cost := func(c, from, to int) float64 {
			t := l.sums[to] - l.sums[from]
			if c == 0 {
				t += l.embedding
			}
			if c == chunks-1 {
				t += l.head
			}
			return t
		}
		_, want := Partition(chunks, len(layers), cost)
		worst, at := 0.0, 0
		for c, n := range filled(chunks, l) {
			worst = math.Max(worst, cost(c, at, at+n))
			at += n
		}
		if at != len(layers) || worst > want*(1+1e-6) {
			t.Fatalf("%d of %d layers take %v, want %v", at, len(layers), worst, want)
		}
	})
}
