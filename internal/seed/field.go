package seed

import (
	"math"
	"slices"
)

// field is a sum of costs of single variables and of pairs of variables, each of which takes one of its
// labels.
type field struct {
	unary [][]float64
	edges []fieldEdge
	// near is, by variable, its edges.
	near [][]int
}

// fieldEdge is what two variables cost together: cost[x*labels(b)+y]. Invariant: a < b.
type fieldEdge struct {
	a, b int
	cost []float64
}

func newField(unary [][]float64) *field { return &field{unary: unary, near: make([][]int, len(unary))} }

// add puts a cost between two variables; between a variable and itself it is the variable's own.
func (f *field) add(a, b int, at func(x, y int) float64) {
	if a == b {
		for x := range f.unary[a] {
			f.unary[a][x] += at(x, x)
		}
		return
	}
	if a > b {
		a, b = b, a
		was := at
		at = func(x, y int) float64 { return was(y, x) }
	}
	e := f.edge(a, b)
	n := len(f.unary[b])
	for x := range f.unary[a] {
		for y := range n {
			f.edges[e].cost[x*n+y] += at(x, y)
		}
	}
}

// edge returns the number of the edge between two variables, made where there is none.
func (f *field) edge(a, b int) int {
	for _, e := range f.near[a] {
		if f.edges[e].b == b && f.edges[e].a == a {
			return e
		}
	}
	e := len(f.edges)
	f.edges = append(f.edges, fieldEdge{a, b, make([]float64, len(f.unary[a])*len(f.unary[b]))})
	f.near[a], f.near[b] = append(f.near[a], e), append(f.near[b], e)
	return e
}

// energy returns what a labelling costs.
func (f *field) energy(x []int) float64 {
	total := 0.0
	for v, l := range x {
		total += f.unary[v][l]
	}
	for _, e := range f.edges {
		total += e.cost[x[e.a]*len(f.unary[e.b])+x[e.b]]
	}
	return total
}

// solve returns the best labelling found, and a bound that no labelling is below.
func (f *field) solve(rounds int) (x []int, cost, bound float64) {
	s := newMessages(f)
	bound, cost = math.Inf(-1), math.Inf(1)
	for round := range rounds {
		found := s.forward()
		f.descend(found)
		if e := f.energy(found); e < cost {
			x, cost = found, e
		}
		b := s.backward()
		if cost-bound <= 1e-9*math.Abs(cost) || round > 20 && b-bound < 1e-7*math.Abs(b) {
			bound = max(bound, b)
			break
		}
		bound = max(bound, b)
	}
	return x, cost, min(bound, cost)
}

// descend changes one variable at a time as long as that helps.
func (f *field) descend(x []int) {
	for changed := true; changed; {
		changed = false
		for v := range x {
			own := f.around(v, x)
			if best := argmin(own); own[best] < own[x[v]]-1e-15 {
				x[v], changed = best, true
			}
		}
	}
}

// around returns the cost of each label of a variable if all others stay.
func (f *field) around(v int, x []int) []float64 {
	own := slices.Clone(f.unary[v])
	for _, e := range f.near[v] {
		edge := &f.edges[e]
		n := len(f.unary[edge.b])
		for l := range own {
			if edge.a == v {
				own[l] += edge.cost[l*n+x[edge.b]]
			} else {
				own[l] += edge.cost[x[edge.a]*n+l]
			}
		}
	}
	return own
}

func argmin(list []float64) int {
	best := 0
	for i, v := range list {
		if v < list[best] {
			best = i
		}
	}
	return best
}
