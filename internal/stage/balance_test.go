package stage

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// randomChain returns products of random widths, some with a detour, of which some share their weights.
func randomChain(t *rapid.T) (*ir.Func, int) {
	n := rapid.IntRange(3, 7).Draw(t, "products")
	widths := rapid.SliceOfN(rapid.SampledFrom([]int{8, 32, 128, 512}), n+1, n+1).Draw(t, "widths")
	b := ir.NewBuilder("chain")
	var weights []*ir.Value
	for i := range n {
		weights = append(weights, b.Param("w",
			ir.Type{DType: array.F32, Shape: array.Shape{widths[i], widths[i+1]}}))
	}
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{64, widths[0]}})
	for i, w := range weights {
		x = op.Tanh(op.MatMul(x, w))
		if i > 0 && widths[i] == widths[i+1] {
			x = op.Add(x, op.MatMul(op.Tanh(x), weights[i]))
		}
	}
	f, err := b.Build(op.Sum(x), op.Const(x, 1))
	if err != nil {
		t.Fatal(err)
	}
	return f, n
}

// TestNarrowIsBest: of all cuts, the slowest stage is within the slack of the fastest, and the sum of what is
// handed over is the least of all cuts that are as fast and as small.
func TestNarrowIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, weights := randomChain(t)
		c := BalanceConfig{Weights: weights, Stages: rapid.IntRange(2, 3).Draw(t, "stages"), Micros: 4, State: 4}
		got, err := Balance(f, c)
		if err != nil {
			t.Fatal(err)
		}
		n := newBalancer(f, c)
		n.measure()
		own := n.cutsOf(got)
		fast, small, narrow := math.Inf(1), math.Inf(1), math.Inf(1)
		all(n, func(cuts []int) { fast = min(fast, n.worst(cuts, n.secondsAt)) })
		all(n, func(cuts []int) {
			if n.worst(cuts, n.secondsAt) <= slack*fast {
				small = min(small, n.worst(cuts, n.bytes))
			}
		})
		all(n, func(cuts []int) {
			if n.worst(cuts, n.secondsAt) <= slack*fast && n.worst(cuts, n.bytes) <= slack*small {
				narrow = min(narrow, n.handed(cuts))
			}
		})
		if n.worst(own, n.secondsAt) > slack*fast || n.worst(own, n.bytes) > slack*small ||
			n.handed(own) != narrow {
			t.Fatalf("cut %v takes %v, %v bytes, hands over %v: want %v, %v, %v", own, n.worst(own, n.secondsAt),
				n.worst(own, n.bytes), n.handed(own), fast, small, narrow)
		}
	})
}

// cutsOf returns a deal of nodes as numbers of places.
func (n *balancer) cutsOf(stages []int) []int {
	at := map[*ir.Node]int{}
	for i, x := range n.f.Nodes() {
		at[x] = stages[i]
	}
	cuts := []int{0}
	for p, k := range n.places {
		if k > 0 && k < len(n.active) && at[n.active[k]] != at[n.active[k-1]] {
			cuts = append(cuts, p)
		}
	}
	return append(cuts, len(n.places)-1)
}

// handed returns what passes between the stages of a cut.
func (n *balancer) handed(cuts []int) (sum float64) {
	for k := range n.c.Stages {
		sum += n.crossing[n.places[cuts[k]]]
	}
	return sum
}

// all calls f with every cut.
func all(n *balancer, f func(cuts []int)) {
	var next func(cuts []int)
	next = func(cuts []int) {
		if len(cuts) == n.c.Stages {
			f(append(cuts[:len(cuts):len(cuts)], len(n.places)-1))
			return
		}
		for i := cuts[len(cuts)-1] + 1; i < len(n.places)-1; i++ {
			next(append(cuts[:len(cuts):len(cuts)], i))
		}
	}
	next([]int{0})
}
