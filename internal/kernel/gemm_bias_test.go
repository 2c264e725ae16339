package kernel

import (
	"math"
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

// TestGemmNarrow holds products with small matrices of every width, and sums over rows, to the plain kernels,
// with and without a bias, rows with gaps and without.
func TestGemmNarrow(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		testGemmNarrow[float32](t, set, 2e-5)
		testGemmNarrow[float64](t, set, 1e-13)
	})
}

func testGemmNarrow[T Float](t *testing.T, set *gemmSet, tolerance float64) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := 1; n <= 66; n++ {
		long, k, gap := 150+r.IntN(200), 1+r.IntN(66), r.IntN(2)*3
		a, b, bias := randomSlice[T](r, long*k), randomSlice[T](r, n*max(k, long)), randomSlice[T](r, n)
		for i, g := range []Gemm[T]{
			{M: long, N: n, K: k, A: Dense(a, 0, NoTrans), B: Dense(b, n, NoTrans), Bias: bias},
			{M: long, N: n, K: k, A: Dense(a, 0, NoTrans), B: Dense(b, k, Transpose)},
			{M: k, N: n, K: long, A: Dense(a, k, Transpose), B: Dense(b, n, NoTrans)},
		} {
			g.LDC = n + gap
			g.C = make([]T, g.M*g.LDC)
			g.runOn(set, nil)
			got := g.C
			g.C = make([]T, g.M*g.LDC)
			g.runOn(&gemmSets[len(gemmSets)-1], nil)
			for e := range got {
				if d := math.Abs(float64(got[e] - g.C[e])); !(d <= tolerance*(1+math.Abs(float64(g.C[e])))) {
					t.Fatalf(
						"way %d, %d×%d×%d, gap %d, element %d: got %v, want %v",
						i,
						g.M,
						g.N,
						g.K,
						gap,
						e,
						got[e],
						g.C[e],
					)
				}
			}
		}
	}
}
