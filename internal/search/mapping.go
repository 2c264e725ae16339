package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
)

// Mapping assigns devices to ranks.
type Mapping struct {
	// Devices is by rank.
	Devices []int
	// Seconds is the cost of the traffic, Identity that if rank i ran on device i, Greedy that before swaps.
	Seconds, Identity, Greedy float64
	// Swaps is the number of exchanged pairs.
	Swaps int
}

// maxTries bounds the number of tried swaps, so that mapping thousands of ranks takes seconds, not hours.
const maxTries = 200_000

// Map finds devices for ranks: neighbours of the innermost dimension get the devices with the fastest links
// between them, then these groups next to each other, and so on outwards; then pairs are swapped as long as
// the traffic gets cheaper. It is never worse than the identity. Further orders to start from may be given.
func Map(c *cluster.Cluster, t *Traffic, starts ...[]int) Mapping {
	r := newTopology(c)
	load := make([]float64, c.NumHosts())
	identity := make([]int, c.Size())
	for i := range identity {
		identity[i] = i
	}
	m := Mapping{Devices: identity[:t.Ranks], Identity: r.price(t, identity, load)}
	m.Seconds, m.Greedy = m.Identity, m.Identity
	if c.Uniform() {
		return m
	}
	for _, start := range append(starts, r.nest(t), identity) {
		if len(start) < t.Ranks {
			continue
		}
		got := Mapping{Devices: withIdle(start, c.Size()), Identity: m.Identity}
		got.Greedy = r.price(t, got.Devices, load)
		r.swap(t, &got, load)
		if got.Seconds < m.Seconds*(1-1e-9) {
			m = got
		}
	}
	m.Devices = m.Devices[:t.Ranks]
	return m
}

// withIdle returns a list of devices followed by those that it lacks.
func withIdle(devices []int, n int) []int {
	used := make([]bool, n)
	for _, d := range devices {
		used[d] = true
	}
	list := slices.Clone(devices)
	for d := range n {
		if !used[d] {
			list = append(list, d)
		}
	}
	return list
}

// nest grows groups from the inside out: each level joins blocks of devices that are close to each other.
func (r *topology) nest(t *Traffic) []int {
	blocks := make([][]int, 0, r.c.Size())
	for d := range r.c.Size() {
		blocks = append(blocks, []int{d})
	}
	for _, n := range t.Nest[:max(0, len(t.Nest)-1)] {
		blocks = r.join(blocks, n)
	}
	var devices []int
	for _, b := range r.byWork(t, blocks) {
		devices = append(devices, b...)
	}
	return devices
}

// byWork orders the outermost blocks so that those that compute the most are on the fastest devices; blocks
// of equal work stay close to each other.
func (r *topology) byWork(t *Traffic, blocks [][]int) [][]int {
	if len(t.Work) == 0 || len(blocks) < 2 {
		if len(blocks) > 1 {
			blocks = r.join(blocks, len(blocks))
		}
		return blocks
	}
	// If some devices are idle there are more blocks than stages: the slowest are left over.
	size := 1
	for _, n := range t.Nest[:len(t.Nest)-1] {
		size *= n
	}
	stages := make([]int, t.Ranks/size)
	for i := range stages {
		stages[i] = i
	}
	slices.SortStableFunc(stages, func(a, b int) int { return cmp.Compare(t.Work[b*size], t.Work[a*size]) })
	blocks = slices.Clone(blocks)
	slices.SortStableFunc(blocks, func(a, b []int) int { return cmp.Compare(r.speed[b[0]], r.speed[a[0]]) })
	placed := slices.Clone(blocks)
	for i, stage := range stages {
		placed[stage] = blocks[i]
	}
	return placed
}

// join makes blocks of n blocks: the first remaining one, and those nearest to it; of equally near ones,
// those with devices of the same speed, so that slow devices slow down only each other.
func (r *topology) join(blocks [][]int, n int) [][]int {
	var joined [][]int
	used := make([]bool, len(blocks))
	for i := range blocks {
		if used[i] {
			continue
		}
		used[i] = true
		block := append([]int(nil), blocks[i]...)
		for range n - 1 {
			best, near := -1, math.Inf(-1)
			for j := range blocks {
				if used[j] {
					continue
				}
				if w := r.nearness(blocks[i], block, blocks[j]); w > near {
					best, near = j, w
				}
			}
			if best < 0 {
				break
			}
			used[best] = true
			block = append(block, blocks[best]...)
		}
		joined = append(joined, block)
	}
	return joined
}

// nearness returns how well a block goes with others: by equal speed first, then by the slowest link to the
// block before.
func (r *topology) nearness(first, last, b []int) float64 {
	way := math.Min(r.bandwidth(first[0], b[0]), r.bandwidth(last[len(last)-1], b[0]))
	unlike := math.Abs(r.speed[first[0]] - r.speed[b[0]])
	return math.Log1p(way) - 100*unlike
}

// swap exchanges the devices of two ranks as long as that reduces the price or, at the same price, the total
// time of all ranks.
func (r *topology) swap(t *Traffic, m *Mapping, load []float64) {
	tries := 0
	worst, all := r.weigh(t, m.Devices, load)
	for better := true; better; {
		better = false
		for i := range t.Ranks { // a device beyond the ranks is idle and may be used
			for j := i + 1; j < len(m.Devices); j++ {
				a, b := m.Devices[i], m.Devices[j]
				if r.host[a] == r.host[b] && !r.wired {
					continue // devices of a host are equal
				}
				if tries++; tries > maxTries {
					m.Seconds = worst
					return
				}
				m.Devices[i], m.Devices[j] = b, a
				w, x := r.weigh(t, m.Devices, load)
				if w < worst*(1-1e-9) || w <= worst && x < all*(1-1e-9) {
					worst, all, better = w, x, true
					m.Swaps++
				} else {
					m.Devices[i], m.Devices[j] = a, b
				}
			}
		}
	}
	m.Seconds = worst
}
