package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGemmBias holds a product with a bias against the product and then the bias, on every way to compute it.
func TestGemmBias(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		testGemmBias[float32](t, set)
		testGemmBias[float64](t, set)
	})
}

func testGemmBias[T Float](t *testing.T, set *gemmSet) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range [][3]int{{5, 7, 6}, {3, 900, 300}, {60, 500, 90}, {150, 190, 1100}, {700, 190, 70},
		{9, 9, 0}} {
		a, b, bias := randomSlice[T](r, s[0]*s[2]), randomSlice[T](r, s[2]*s[1]), randomSlice[T](r, s[1])
		for _, threads := range []int{1, 2} {
			p := NewPool(threads)
			g := Gemm[T]{M: s[0], N: s[1], K: s[2], A: Dense(a, 0, NoTrans), B: Dense(b, 0, NoTrans),
				C: make([]T, s[0]*s[1])}
			g.runOn(set, p)
			want := g.C
			for i := range want {
				want[i] += bias[i%s[1]]
			}
			g.C, g.Bias = make([]T, s[0]*s[1]), bias
			g.runOn(set, p)
			p.Close()
			if !slices.Equal(g.C, want) {
				t.Errorf("%v on %d threads: got another sum than that of product and bias", s, threads)
			}
		}
	}
}
