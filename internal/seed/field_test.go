package seed

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Messages never promise more than there is: the bound is below the best labelling, and on trees they meet.
func TestSolveAgainstAllLabellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "variables")
		unary := make([][]float64, n)
		cost := rapid.Float64Range(0, 10)
		for v := range unary {
			unary[v] = rapid.SliceOfN(cost, 1, 3).Draw(t, "unary")
		}
		f := newField(unary)
		tree := rapid.Bool().Draw(t, "tree")
		for b := 1; b < n; b++ {
			edges := 1
			if !tree {
				edges = rapid.IntRange(0, b).Draw(t, "edges")
			}
			for range edges {
				a := rapid.IntRange(0, b-1).Draw(t, "a")
				table := rapid.SliceOfN(cost, 9, 9).Draw(t, "pair")
				f.add(b, a, func(x, y int) float64 { return table[3*x+y] })
			}
		}
		best := math.Inf(1)
		x := make([]int, n)
		var all func(v int)
		all = func(v int) {
			if v == n {
				best = min(best, f.energy(x))
				return
			}
			for x[v] = range unary[v] {
				all(v + 1)
			}
		}
		all(0)
		_, got, bound := f.solve(200)
		if bound > best+1e-9 || got < best-1e-9 {
			t.Fatalf("bound %v, found %v, best %v", bound, got, best)
		}
		if tree && (got > best+1e-9 || bound < best-1e-6) {
			t.Fatalf("on a tree: bound %v, found %v, best %v", bound, got, best)
		}
	})
}
