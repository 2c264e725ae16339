package search

import (
	"slices"

	"github.com/galley-ml/galley/internal/plan"
)

// Loader says what layers take on the ranks of a pipeline. *plan.Estimator is one.
type Loader interface {
	// Kind is the type of device of a rank: ranks of one kind have the same loads.
	Kind(s plan.Strategy, rank int) int
	Loads(s plan.Strategy, rank int) (layers []float64, embedding, head float64, err error)
}

// cuts is the ways in which a strategy's layers are cut into stages: as even as it goes (nil), and balanced.
func (w *worker) cuts(s plan.Strategy) [][]int {
	even := [][]int{nil}
	l, ok := w.p.(Loader)
	if !ok || s.PP == 1 {
		return even
	}
	if balanced := Balance(l, s); balanced != nil && !slices.Equal(balanced, evenly(w.s.c.Workload.Model.Layers, s.PP*s.VPP)) {
		return append(even, balanced)
	}
	return even
}

// Balance cuts a strategy's layers so that its slowest chunk is as fast as it can be, the embedding and the head included, each
// chunk on the devices of its rank; nil where that is not known.
func Balance(l Loader, s plan.Strategy) []int {
	pp, chunks := max(1, s.PP), max(1, s.PP)*max(1, s.VPP)
	sums := make([][]float64, pp) // sums[r][i]: layers before i on rank r
	ends := make([][2]float64, pp)
	for r := range pp {
		if k := l.Kind(s, r); r > 0 && k == l.Kind(s, r-1) {
			sums[r], ends[r] = sums[r-1], ends[r-1]
			continue
		}
		layers, embedding, head, err := l.Loads(s, r)
		if err != nil {
			return nil
		}
		ends[r] = [2]float64{embedding, head}
		sums[r] = make([]float64, len(layers)+1)
		for i, x := range layers {
			sums[r][i+1] = sums[r][i] + x
		}
	}
	sizes, _ := Partition(chunks, len(sums[0])-1, func(chunk, from, to int) float64 {
		r := s.RankOf(chunk)
		t := sums[r][to] - sums[r][from]
		if chunk == 0 {
			t += ends[r][0]
		}
		if chunk == chunks-1 {
			t += ends[r][1]
		}
		return t
	})
	return sizes
}

// evenly is layers cut as even as it goes, the longer chunks first.
func evenly(layers, chunks int) []int {
	sizes := make([]int, chunks)
	for i := range sizes {
		sizes[i] = layers / chunks
		if i < layers%chunks {
			sizes[i]++
		}
	}
	return sizes
}
