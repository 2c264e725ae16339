package branch

import (
	"cmp"
	"slices"
)

// parts are how large clusters may be, as parts of one device's time, the coarsest first.
var parts = []int{6, 16, 48}

// coarse begins with all nodes on one device and moves clusters of nodes that belong together to the other,
// large ones first: where nodes take less than a message, no single one is worth one, and whole branches are.
func (g *graph) coarse(p *Plan) {
	for _, part := range parts {
		clusters := g.clusters(p, p.Serial/float64(part))
		if len(clusters) > mostClusters {
			continue
		}
		best := g.run(p)
		try := func(list ...[]int) bool {
			flip(p, list)
			if t := g.run(p); t < best {
				best = t
				return true
			}
			flip(p, list)
			return false
		}
		for range rounds {
			moved := false
			for i, a := range clusters {
				moved = try(a) || moved
				for _, b := range clusters[i+1:] {
					moved = try(a, b) || moved
				}
			}
			if !moved {
				break
			}
		}
	}
}

// mostClusters bounds the pairs that are tried.
const mostClusters = 120

func flip(p *Plan, clusters [][]int) {
	for _, c := range clusters {
		for _, i := range c {
			p.device[i] ^= 1
		}
	}
}

// clusters joins nodes on one device that hand values to each other, those first that have least to compute
// for what they would send, as long as none takes longer than a limit.
func (g *graph) clusters(p *Plan, limit float64) [][]int {
	type edge struct {
		from, to int
		weight   float64
	}
	var edges []edge
	for i, n := range g.f.Nodes() {
		for _, v := range n.In() {
			if from := g.made[v.ID()]; from >= 0 && p.device[from] == p.device[i] {
				least := min(g.seconds[from], g.seconds[i])
				edges = append(edges, edge{from, i, g.message[v.ID()] / (least + 1e-9)})
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(b.weight, a.weight) })
	head, seconds := make([]int, len(g.seconds)), slices.Clone(g.seconds)
	for i := range head {
		head[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if head[i] != i {
			head[i] = find(head[i])
		}
		return head[i]
	}
	for _, e := range edges {
		if a, b := find(e.from), find(e.to); a != b && seconds[a]+seconds[b] <= limit {
			head[b] = a
			seconds[a] += seconds[b]
		}
	}
	var list [][]int
	at := map[int]int{}
	for i := range head {
		h := find(i)
		k, ok := at[h]
		if !ok {
			k = len(list)
			at[h], list = k, append(list, nil)
		}
		list[k] = append(list[k], i)
	}
	// The largest are moved first; what takes no time by itself goes with the nodes that are looked at last.
	of := func(c []int) float64 { return seconds[find(c[0])] }
	slices.SortStableFunc(list, func(a, b []int) int { return cmp.Compare(of(b), of(a)) })
	return slices.DeleteFunc(list, func(c []int) bool { return of(c) < limit/64 })
}
