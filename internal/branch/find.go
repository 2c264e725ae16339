package branch

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// Config says what things cost.
type Config struct {
	Prices spmd.Prices
	// Next is, for results that become parameters of the next run, the parameter's number.
	Next map[int]int
}

// Plan is where the nodes of a program run.
type Plan struct {
	// Seconds is what a run takes on two devices, Serial on one.
	Seconds, Serial float64
	// Messages is how many tensors change devices, Bytes how much that is.
	Messages int
	Bytes    float64
	// device is by node, home by parameter; order is that in which nodes run, start and end when, by node.
	device, home, order []int
	start, end          []float64
}

// least is the part of one device's time that two must save.
const least = 0.05

// Pays reports whether two devices are predicted to be worth it.
func (p *Plan) Pays() bool { return p.Seconds < (1-least)*p.Serial }

// On returns the device that a node runs on, 0 or 1.
func (p *Plan) On(node int) int { return p.device[node] }

// graph is a program with its prices.
type graph struct {
	f       *ir.Func
	seconds []float64 // by node
	message []float64 // by value
	made    []int     // by value, the node; -1 is a parameter
	users   [][]int   // by value
	next    map[int]int
}

func newGraph(f *ir.Func, c Config) *graph {
	g := &graph{f: f, made: make([]int, f.NumValues()), users: make([][]int, f.NumValues()),
		message: make([]float64, f.NumValues()), next: c.Next}
	note := func(v *ir.Value, node int) {
		g.made[v.ID()] = node
		g.message[v.ID()] = c.Prices.Message(float64(v.Type().Bytes()))
	}
	for _, v := range f.Params() {
		note(v, -1)
	}
	for i, n := range f.Nodes() {
		seconds := 0.0
		if o, ok := n.Op().(op.Op); ok {
			seconds = c.Prices.Seconds(o, ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
		}
		g.seconds = append(g.seconds, seconds)
		for _, v := range n.In() {
			g.users[v.ID()] = append(g.users[v.ID()], i)
		}
		for _, v := range n.Out() {
			note(v, i)
		}
	}
	return g
}

// Find looks for the best places: from all nodes on one device on, by moving branches, and from a schedule on
// that puts each node where it ends first. What is better of both is made better by moving single nodes.
func Find(f *ir.Func, c Config) *Plan {
	g := newGraph(f, c)
	n := len(f.Nodes())
	p := &Plan{order: g.ranked(), device: make([]int, n), start: make([]float64, n), end: make([]float64, n)}
	p.Serial = g.run(p)
	g.coarse(p)
	g.improve(p)
	p.Seconds = g.run(p)
	fine := &Plan{Serial: p.Serial, order: p.order, device: make([]int, n), start: make([]float64, n),
		end: make([]float64, n)}
	g.schedule(fine)
	g.improve(fine)
	if fine.Seconds = g.run(fine); fine.Seconds < p.Seconds {
		p = fine
	}
	g.count(p)
	return p
}

// ranked returns the nodes by how long what hangs on them takes, the longest first: every node comes behind
// those that it reads.
func (g *graph) ranked() []int {
	rank := make([]float64, len(g.seconds))
	for i, n := range slices.Backward(g.f.Nodes()) {
		for _, v := range n.Out() {
			for _, u := range g.users[v.ID()] {
				rank[i] = max(rank[i], g.message[v.ID()]+rank[u])
			}
		}
		rank[i] += g.seconds[i]
	}
	order := make([]int, len(rank))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rank[a] > rank[b]:
			return -1
		case rank[a] < rank[b]:
			return 1
		}
		return a - b
	})
	return order
}

// schedule puts each node where it ends first.
func (g *graph) schedule(p *Plan) {
	s := g.newRun()
	for _, i := range p.order {
		best, end := 0, 0.0
		for d := range 2 {
			if _, t := s.span(g, i, d); d == 0 || t < end {
				best, end = d, t
			}
		}
		p.device[i] = best
		s.take(g, i, best)
	}
}

// improve moves nodes to the other device, each with what only it reads, as long as that saves time.
func (g *graph) improve(p *Plan) {
	best := g.run(p)
	for round := 0; round < rounds && len(p.order) <= most; round++ {
		before := best
		for _, i := range p.order {
			p.device[i] ^= 1
			if t := g.run(p); t < best {
				best = t
			} else {
				p.device[i] ^= 1
			}
		}
		if best > before*0.999 {
			return
		}
	}
}

// rounds and most bound the time that improving takes: it is quadratic in the number of nodes.
const (
	rounds = 4
	most   = 3000
)
