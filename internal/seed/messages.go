package seed

import (
	"math"
	"slices"
)

// messages is sequential tree-reweighted message passing [Kolmogorov 2006]: variables in order, forward and
// back; the sum of what is taken out of the messages is a lower bound that never falls.
type messages struct {
	f *field
	// toB and toA are, by edge, what each end hears from the other.
	toB, toA [][]float64
	// share is, by variable, the part of its own cost that each message carries.
	share []float64
}

func newMessages(f *field) *messages {
	s := &messages{f: f, toA: make([][]float64, len(f.edges)), toB: make([][]float64, len(f.edges)),
		share: make([]float64, len(f.unary))}
	ahead, behind := make([]int, len(f.unary)), make([]int, len(f.unary))
	for e := range f.edges {
		a, b := f.edges[e].a, f.edges[e].b
		s.toA[e], s.toB[e] = make([]float64, len(f.unary[a])), make([]float64, len(f.unary[b]))
		ahead[a]++
		behind[b]++
	}
	for v := range s.share {
		s.share[v] = 1 / float64(max(1, ahead[v], behind[v]))
	}
	return s
}

// heard returns a variable's own cost with all that it hears.
func (s *messages) heard(v int) []float64 {
	sum := slices.Clone(s.f.unary[v])
	for _, e := range s.f.near[v] {
		in := s.toA[e]
		if s.f.edges[e].b == v {
			in = s.toB[e]
		}
		for l, m := range in {
			sum[l] += m
		}
	}
	return sum
}

// forward sends messages to later variables, and reads off a labelling on the way: each variable takes what
// is best given those before it and what it hears of those after.
func (s *messages) forward() []int {
	x := make([]int, len(s.f.unary))
	for v := range x {
		x[v] = s.decode(v, x)
		sum := s.heard(v)
		for _, e := range s.f.near[v] {
			if s.f.edges[e].a == v {
				s.send(e, v, sum)
			}
		}
	}
	return x
}

func (s *messages) decode(v int, x []int) int {
	own := slices.Clone(s.f.unary[v])
	for _, e := range s.f.near[v] {
		edge := &s.f.edges[e]
		for l := range own {
			if edge.a == v {
				own[l] += s.toA[e][l]
			} else {
				own[l] += edge.cost[x[edge.a]*len(own)+l]
			}
		}
	}
	return argmin(own)
}

// backward sends messages to earlier variables and returns the bound.
func (s *messages) backward() float64 {
	bound := 0.0
	for v := len(s.f.unary) - 1; v >= 0; v-- {
		sum := s.heard(v)
		low := slices.Min(sum)
		bound += low
		for l := range sum {
			sum[l] -= low
		}
		for _, e := range s.f.near[v] {
			if s.f.edges[e].b == v {
				bound += s.send(e, v, sum)
			}
		}
	}
	return bound
}

// send renews the message along an edge from v and returns what it was lowered by.
func (s *messages) send(e, v int, sum []float64) float64 {
	edge := &s.f.edges[e]
	in, out := s.toA[e], s.toB[e]
	nb := len(s.f.unary[edge.b])
	stepIn, stepOut := nb, 1
	if edge.b == v {
		in, out = out, in
		stepIn, stepOut = 1, nb
	}
	for y := range out {
		best := math.Inf(1)
		for x := range in {
			if c := s.share[v]*sum[x] - in[x] + edge.cost[x*stepIn+y*stepOut]; c < best {
				best = c
			}
		}
		out[y] = best
	}
	low := slices.Min(out)
	for y := range out {
		out[y] -= low
	}
	return low
}
