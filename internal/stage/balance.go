package stage

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// BalanceConfig configures how a program without stage marks is split.
type BalanceConfig struct {
	// Weights is the number of the program's first parameters, which are trained, Stages the number of stages
	// and Micros the number of micro-batches.
	Weights, Stages, Micros int
	// State is the bytes that are stored for each byte of a weight: itself, its gradient, the optimizer's slots.
	State float64
	// Only, if set, marks the nodes to split, by number; others are left alone.
	Only   []bool
	Prices spmd.Prices
}

// slack is how much slower than the fastest split, or larger than the smallest, another one may be that is
// better otherwise.
const slack = 1.05

// mostPlaces bounds the number of considered places; if there are more, the narrowest of each share of the
// work.
const mostPlaces = 400

// Balance assigns the nodes that depend on weights and on the batch to stages. It minimizes the time of the
// slowest stage, including messages, then the memory of the fullest device, then the bytes passed between
// stages. Nodes that every stage can compute itself get -1.
func Balance(f *ir.Func, c BalanceConfig) ([]int, error) {
	n := newBalancer(f, c)
	if len(n.places) < c.Stages+1 {
		return nil, fmt.Errorf("stages: %s can be cut at %d places: %d stages need %d: want fewer stages", f.Name(),
			max(0, len(n.places)-2), c.Stages, c.Stages-1)
	}
	n.measure()
	none := math.Inf(1)
	fast := n.best(func(i, j, k int) float64 { return n.seconds(i, j) }, none, none)
	small := n.best(func(i, j, k int) float64 { return n.bytes(i, j, k) }, slack*n.worst(fast, n.secondsAt),
		none)
	narrow := n.least(func(i, _, _ int) float64 { return n.crossing[n.places[i]] },
		slack*n.worst(fast, n.secondsAt),
		slack*n.worst(small, n.bytes))
	return n.assign(narrow), nil
}

// balancer knows the costs of every possible split.
type balancer struct {
	f *ir.Func
	c BalanceConfig
	// active holds the nodes to split, in order; reads holds the weights that each uses.
	active []*ir.Node
	reads  [][]int
	// crossing is the number of bytes that cross before each active node; places holds the positions where the
	// program may be split, including the begin and the end.
	crossing []float64
	places   []int
	// work and kept are cumulative sums over active nodes: seconds, and bytes of results.
	work, kept []float64
	// state is the bytes of the weights between two places.
	state [][]float64
}

func newBalancer(f *ir.Func, c BalanceConfig) *balancer {
	n := &balancer{f: f, c: c}
	learned, fixed := make([]bool, f.NumValues()), make([]bool, f.NumValues())
	from := make([][]int, f.NumValues()) // the weights that a value depends on, if on nothing else
	for i, v := range f.Params()[:c.Weights] {
		learned[v.ID()], fixed[v.ID()], from[v.ID()] = true, true, []int{i}
	}
	for i, x := range f.Nodes() {
		var own []int
		is, only := false, true
		for _, v := range x.In() {
			is, only = is || learned[v.ID()], only && fixed[v.ID()]
			own = append(own, from[v.ID()]...)
		}
		for _, v := range x.Out() {
			if learned[v.ID()], fixed[v.ID()] = is, only; only {
				from[v.ID()] = own
			}
		}
		if is && !only && (c.Only == nil || c.Only[i]) {
			n.active, n.reads = append(n.active, x), append(n.reads, own)
		}
	}
	n.cross()
	n.choose()
	return n
}

// cross computes the bytes that cross between active nodes.
func (n *balancer) cross() {
	at := map[*ir.Node]int{}
	for i, x := range n.active {
		at[x] = i
	}
	last := map[*ir.Value]int{}
	for i, x := range n.f.Nodes() {
		use := len(n.active)
		if k, ok := at[x]; ok {
			use = k
		} else if n.c.Only == nil || n.c.Only[i] {
			continue
		}
		for _, v := range x.In() {
			last[v] = max(last[v], use)
		}
	}
	for _, v := range n.f.Results() {
		last[v] = len(n.active)
	}
	n.crossing = make([]float64, len(n.active)+1)
	for i, x := range n.active {
		for _, v := range x.Out() {
			for k := i + 1; k <= last[v] && k < len(n.active); k++ {
				n.crossing[k] += float64(v.Type().Bytes())
			}
		}
	}
}

// choose determines the places: wherever something crosses or, if those are many, the narrowest in each share
// of work.
func (n *balancer) choose() {
	n.work, n.kept = make([]float64, len(n.active)+1), make([]float64, len(n.active)+1)
	for i, x := range n.active {
		w := x.Op().(op.Op).Work(ir.TypesOf(x.In()), ir.TypesOf(x.Out()))
		n.work[i+1] = n.work[i] + 3*n.c.Prices.Compute(w) // forward, and twice as much backward
		n.kept[i+1] = n.kept[i]
		for _, v := range x.Out() {
			n.kept[i+1] += float64(v.Type().Bytes())
		}
	}
	total := n.work[len(n.active)]
	best, share := -1, 0
	n.places = []int{0}
	for k := 1; k < len(n.active); k++ {
		if n.crossing[k] == 0 {
			continue
		}
		in := k
		if len(n.active) > mostPlaces {
			in = int(n.work[k] / total * mostPlaces)
		}
		if best >= 0 && in == share && n.crossing[k] >= n.crossing[best] {
			continue
		}
		if best >= 0 && in != share {
			n.places = append(n.places, best)
		}
		best, share = k, in
	}
	if best >= 0 {
		n.places = append(n.places, best)
	}
	n.places = append(n.places, len(n.active))
}

// measure computes the bytes of weights between places.
func (n *balancer) measure() {
	n.state = make([][]float64, len(n.places))
	for i := range n.places {
		n.state[i] = make([]float64, len(n.places))
		seen, sum := map[int]bool{}, 0.0
		for j := i + 1; j < len(n.places); j++ {
			for k := n.places[j-1]; k < n.places[j]; k++ {
				for _, w := range n.reads[k] {
					if !seen[w] {
						seen[w] = true
						sum += float64(n.f.Params()[w].Type().Bytes())
					}
				}
			}
			n.state[i][j] = sum
		}
	}
}

// seconds returns the time of a stage between two places for a batch, with its messages both ways.
func (n *balancer) seconds(i, j int) float64 {
	s := n.work[n.places[j]] - n.work[n.places[i]]
	for _, at := range []int{n.places[i], n.places[j]} {
		if at > 0 && at < len(n.active) {
			s += 2 * n.c.Prices.Message(n.crossing[at])
		}
	}
	return s
}

func (n *balancer) secondsAt(i, j, _ int) float64 { return n.seconds(i, j) }

// bytes returns the memory of a device of stage k between two places: state, and results of the micro-batches
// in flight.
func (n *balancer) bytes(i, j, k int) float64 {
	under := float64(min(n.c.Micros, n.c.Stages-k)) / float64(max(1, n.c.Micros))
	return n.c.State*n.state[i][j] + under*(n.kept[n.places[j]]-n.kept[n.places[i]])
}

// best returns the places of stages that minimize the largest cost, within both limits.
func (n *balancer) best(cost func(i, j, k int) float64, seconds, bytes float64) []int {
	return n.search(cost, math.Max, seconds, bytes)
}

// least returns the places of stages that minimize the sum of costs, within both limits.
func (n *balancer) least(cost func(i, j, k int) float64, seconds, bytes float64) []int {
	return n.search(cost, func(a, b float64) float64 { return a + b }, seconds, bytes)
}

// search returns the places where stages begin, and the end after them, by dynamic programming over the
// places, stage by stage.
func (n *balancer) search(cost func(i, j, k int) float64, join func(a, b float64) float64, seconds,
	bytes float64) []int {
	ends := len(n.places)
	sums := slices.Repeat([]float64{math.Inf(1)}, ends)
	sums[0] = 0
	var from [][]int
	for k := range n.c.Stages {
		next, back := slices.Repeat([]float64{math.Inf(1)}, ends), make([]int, ends)
		for j := k + 1; j < ends; j++ {
			for i := k; i < j; i++ {
				if math.IsInf(sums[i], 1) || n.seconds(i, j) > seconds || n.bytes(i, j, k) > bytes {
					continue
				}
				if x := join(sums[i], cost(i, j, k)); x < next[j] {
					next[j], back[j] = x, i
				}
			}
		}
		sums, from = next, append(from, back)
	}
	cuts := []int{ends - 1}
	for k := n.c.Stages - 1; k >= 0; k-- {
		cuts = append(cuts, from[k][cuts[len(cuts)-1]])
	}
	slices.Reverse(cuts)
	return cuts
}

// worst returns the largest cost of the stages between places.
func (n *balancer) worst(cuts []int, cost func(i, j, k int) float64) float64 {
	worst := 0.0
	for k := range n.c.Stages {
		worst = max(worst, cost(cuts[k], cuts[k+1], k))
	}
	return worst
}

// assign returns the stage of every node.
func (n *balancer) assign(cuts []int) []int {
	at := map[*ir.Node]int{}
	for k := range n.c.Stages {
		for i := n.places[cuts[k]]; i < n.places[cuts[k+1]]; i++ {
			at[n.active[i]] = k
		}
	}
	list := make([]int, len(n.f.Nodes()))
	for i, x := range n.f.Nodes() {
		k, ok := at[x]
		if !ok {
			k = -1
		}
		list[i] = k
	}
	return list
}
