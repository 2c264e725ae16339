package search

import (
	"math"
	"slices"

	"github.com/galley-ml/galley/strategy"
)

// Loader returns the times of layers on the ranks of a pipeline. *plan.Estimator implements it.
type Loader interface {
	// Kind returns the type of device of a rank: ranks of one kind have the same loads.
	Kind(s strategy.Strategy, rank int) int
	Loads(s strategy.Strategy, rank int) (layers []float64, embedding, head float64, err error)
}

// mostEven is the number of chunks per rank up to which an even division is tried beside the balanced one.
const mostEven = 4

// cuts returns the ways to divide a strategy's layers into stages: balanced and, with few chunks per rank,
// also as evenly as possible, which is nil.
func (w *worker) cuts(s strategy.Strategy) [][]int {
	even := [][]int{nil}
	if pin := w.s.c.Pin; pin.has("layers") {
		if len(pin.want.Layers) != max(1, s.PP)*max(1, s.VPP) {
			return nil
		}
		return [][]int{pin.want.Layers}
	}
	l, ok := w.p.(Loader)
	if !ok || s.PP == 1 {
		return even
	}
	balanced := Balance(l, s)
	switch {
	case balanced == nil || slices.Equal(balanced, evenly(w.s.c.Workload.Model.Layers, s.PP*s.VPP)):
		return even
	case s.VPP > mostEven: // chunks are short: the two hardly differ
		return [][]int{balanced}
	}
	return append(even, balanced)
}

// Balance divides a strategy's layers so that its slowest chunk is as fast as possible, including the
// embedding and the head, with each chunk on the devices of its rank; nil if the loads are not known.
func Balance(l Loader, s strategy.Strategy) []int {
	pp, chunks := max(1, s.PP), max(1, s.PP)*max(1, s.VPP)
	loads := make([]rankLoad, pp)
	kinds := 0
	for r := range pp {
		if r > 0 && l.Kind(s, r) == l.Kind(s, r-1) {
			loads[r] = loads[r-1]
			continue
		}
		layers, embedding, head, err := l.Loads(s, r)
		if err != nil {
			return nil
		}
		loads[r] = newRankLoad(layers, embedding, head)
		kinds++
	}
	switch {
	case kinds == 1 && loads[0].alike:
		return levelled(chunks, loads[0])
	case kinds == 1:
		return filled(chunks, loads[0])
	}
	of := make([]*rankLoad, chunks)
	for c := range of {
		of[c] = &loads[s.RankOf(c)]
	}
	sizes, _ := Partition(chunks, len(loads[0].sums)-1, func(c, from, to int) float64 {
		t := of[c].sums[to] - of[c].sums[from]
		if c == 0 {
			t += of[c].embedding
		}
		if c == chunks-1 {
			t += of[c].head
		}
		return t
	})
	return sizes
}

// rankLoad holds the times of layers on a rank: sums[i] is the total of those before layer i.
type rankLoad struct {
	sums            []float64
	embedding, head float64
	alike           bool // all layers take the same time
}

func newRankLoad(layers []float64, embedding, head float64) rankLoad {
	r := rankLoad{make([]float64, len(layers)+1), embedding, head, true}
	for i, x := range layers {
		r.sums[i+1] = r.sums[i] + x
		r.alike = r.alike && x == layers[0]
	}
	return r
}

// levelled divides equal layers among equal ranks: the time of the slowest chunk is that of some number of
// layers, alone or with an end, and the answer is the smallest such time for which all layers fit.
func levelled(chunks int, l rankLoad) []int {
	layers := len(l.sums) - 1
	one := l.sums[1]
	if chunks == 1 || chunks > layers || one <= 0 {
		return nil
	}
	extra := func(c int) float64 {
		switch c {
		case 0:
			return l.embedding
		case chunks - 1:
			return l.head
		}
		return 0
	}
	best := math.Inf(1)
	for _, end := range []float64{0, l.embedding, l.head} {
		for n := max(1, layers/chunks-int(end/one)-1); n <= ceil(layers, chunks)+1; n++ {
			if t := end + float64(n)*one; t < best && places(chunks, one, t, extra) >= layers {
				best = t
			}
		}
	}
	if math.IsInf(best, 1) {
		return nil
	}
	sizes := make([]int, chunks)
	left := -layers
	for c := range sizes {
		sizes[c] = most(best, extra(c), one)
		left += sizes[c]
	}
	for ; left > 0; left-- { // surplus is taken from the slowest chunk
		worst := -1
		for c := range sizes {
			if sizes[c] > 1 &&
				(worst < 0 || extra(c)+float64(sizes[c])*one >= extra(worst)+float64(sizes[worst])*one) {
				worst = c
			}
		}
		sizes[worst]--
	}
	return sizes
}

// filled divides different layers among equal ranks: it bisects the time of the slowest chunk until the
// chunks, each filled from the last one on, hold all layers exactly. The first chunks, which keep the most
// micro-batches, then have the fewest layers.
func filled(chunks int, l rankLoad) []int {
	layers := len(l.sums) - 1
	if chunks == 1 || chunks > layers {
		return nil
	}
	sizes, best := make([]int, chunks), make([]int, chunks)
	low, high := l.sums[layers]/float64(chunks), l.sums[layers]+l.embedding+l.head
	if !l.fill(best, high) {
		return nil
	}
	for range 40 {
		mid := (low + high) / 2
		if l.fill(sizes, mid) {
			high = mid
			copy(best, sizes)
		} else {
			low = mid
		}
		if high-low < 1e-9*high {
			break
		}
	}
	return best
}

// fill gives each chunk, the last one first, as many layers as take at most t, and leaves one for each chunk
// before it; it reports whether all layers were assigned.
func (l rankLoad) fill(sizes []int, t float64) bool {
	at := len(l.sums) - 1
	for c := len(sizes) - 1; c >= 0; c-- {
		room := t
		if c == 0 {
			room -= l.embedding
		}
		if c == len(sizes)-1 {
			room -= l.head
		}
		from := at
		for from > c && l.sums[at]-l.sums[from-1] <= room {
			from--
		}
		if from == at {
			return false
		}
		sizes[c], at = at-from, from
	}
	return at == 0
}

// places returns the number of layers that all chunks hold if none exceeds t; 0 if an end alone does.
func places(chunks int, one, t float64, extra func(c int) float64) int {
	first, last := most(t, extra(0), one), most(t, extra(chunks-1), one)
	if first < 1 || last < 1 {
		return 0
	}
	return first + last + (chunks-2)*most(t, 0, one)
}

// most returns the number of layers that fit into a time beside an end.
func most(t, end, one float64) int { return int((t-end)/one + 1e-9) }

// evenly divides layers as evenly as possible, the longer chunks first.
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
