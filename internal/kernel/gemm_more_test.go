package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var allTrans = [][2]Trans{{NoTrans, NoTrans}, {NoTrans, Transpose}, {Transpose, NoTrans},
	{Transpose, Transpose}}

// TestGemmBlocks meets more than one block of every dimension.
func TestGemmBlocks(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		p := NewPool(2)
		defer p.Close()
		for _, tr := range allTrans {
			for _, s := range [][3]int{{150, 40, 530}, {134, 4200, 3}, {360, 40, 30}, {1, 1100, 300}, {2, 30, 2100},
				{40, 100, 530}} {
				c := gemmCase{m: s[0], n: s[1], k: s[2], ta: tr[0], tb: tr[1], padC: 1}
				checkGemm[float32](t, set, p, c)
				c.update = Accumulate
				checkGemm[float64](t, set, p, c)
				c.formatA, c.formatB = formatF16, formatBF16
				checkGemm[float32](t, set, p, c)
			}
		}
	})
}

func randomSlice[T Float](r *rand.Rand, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(r.Float64()*2 - 1)
	}
	return s
}

// TestGemmThreads checks that no bit depends on the number of threads.
func TestGemmThreads(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		testGemmThreads[float32](t, set)
		testGemmThreads[float64](t, set)
	})
}

func testGemmThreads[T Float](t *testing.T, set *gemmSet) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{150, 190, 300}, {1, 2500, 500}, {2500, 3, 200}, {40, 200, 300}, {1800, 20, 30}} {
		for _, tr := range allTrans {
			a, b := randomSlice[T](r, s[0]*s[2]), randomSlice[T](r, s[2]*s[1])
			var want []T
			for _, threads := range []int{1, 2, 3, 8} {
				p := NewPool(threads)
				c := make([]T, s[0]*s[1])
				Gemm[T]{M: s[0], N: s[1], K: s[2], A: Dense(a, 0, tr[0]), B: Dense(b, 0, tr[1]), C: c}.runOn(set, p)
				p.Close()
				if want == nil {
					want = c
				}
				if !slices.Equal(c, want) {
					t.Errorf("%v trans %v: %d threads change the result", s, tr, threads)
				}
			}
		}
	}
}

// TestGemmBatch compares a batch with its items one by one.
func TestGemmBatch(t *testing.T) {
	eachSet(t, func(t *testing.T, set *gemmSet) {
		p := NewPool(3)
		defer p.Close()
		for _, batch := range []int{0, 1, 2, 50} {
			for _, s := range [][3]int{{5, 7, 9}, {33, 20, 65}, {140, 130, 10}} {
				for shared := range 4 {
					checkBatch(t, set, p, batch, s[0], s[1], s[2], shared)
				}
			}
		}
	})
}

// checkBatch shares A between the items with bit 0 of shared, B with bit 1.
func checkBatch(t *testing.T, set *gemmSet, p *Pool, batch, m, n, k, shared int) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, uint64(m)))
	a, b := randomSlice[float32](r, max(batch, 1)*m*k), randomSlice[float32](r, max(batch, 1)*k*n)
	g := GemmBatch[float32]{
		Gemm: Gemm[float32]{M: m, N: n, K: k, A: Dense(a, 0, NoTrans), B: Dense(b, 0, Transpose),
			C: make([]float32, batch*m*n)},
		Batch:   batch,
		StrideA: (1 - shared&1) * m * k, StrideB: (1 - shared>>1) * n * k, StrideC: m * n,
	}
	g.runOn(set, p)
	for i := range batch {
		want := make([]float32, m*n)
		Gemm[float32]{M: m, N: n, K: k, A: Dense(a[i*g.StrideA:], 0, NoTrans),
			B: Dense(b[i*g.StrideB:], 0, Transpose), C: want}.runOn(set, nil)
		for j, v := range g.C[i*m*n:][:m*n] {
			if diff := v - want[j]; diff > 1e-4 || diff < -1e-4 {
				t.Fatalf("%s: batch %d shared %d item %d: element %d is %v, want %v", set.name, batch, shared, i, j, v,
					want[j])
			}
		}
	}
}

// TestGemmBatchAt compares items that begin anywhere with the same ones at strides, bit by bit.
func TestGemmBatchAt(t *testing.T) {
	const batch, m, n, k = 6, 33, 40, 65
	r := rand.New(rand.NewPCG(5, 6))
	a, b := randomSlice[float32](r, batch*m*k), randomSlice[float32](r, batch*k*n)
	g := GemmBatch[float32]{Gemm: Gemm[float32]{M: m, N: n, K: k, A: Dense(a, 0, NoTrans),
		B: Dense(b, 0, NoTrans), C: make([]float32, batch*m*n)},
		Batch: batch, StrideA: m * k, StrideB: k * n, StrideC: m * n}
	g.Run(nil)
	want := g.C
	g.C, g.At = make([]float32, batch*m*n), func(i int) [3]int {
		i = (i + 4) % batch
		return [3]int{i * m * k, i * k * n, i * m * n}
	}
	p := NewPool(3)
	defer p.Close()
	g.Run(p)
	if !slices.Equal(g.C, want) {
		t.Error("other products")
	}
	g.At = func(i int) [3]int { return [3]int{i * m * k, i * k * n, i*m*n + i/5} }
	defer func() {
		if recover() == nil {
			t.Error("an item outside its slice is computed")
		}
	}()
	g.Run(p)
}

// TestEvenSums computes products as they are, in place of other layouts and transposed, wherever that is said
// to have the same sums: bit by bit.
func TestEvenSums(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	turns := 0
	for range 60 {
		m, n, k := 1+r.IntN(300), 1+r.IntN(300), 1+r.IntN(150)
		if r.IntN(2) == 0 {
			k = 64 * (1 + r.IntN(8))
		}
		even, turned := EvenSums[float32](m, n, k)
		if !even {
			continue
		}
		a, b := randomSlice[float32](r, m*k), randomSlice[float32](r, k*n)
		product := func(m, n int, a, b Operand[float32]) []float32 {
			c := make([]float32, m*n)
			Gemm[float32]{M: m, N: n, K: k, A: a, B: b, C: c}.Run(nil)
			return c
		}
		want := product(m, n, Dense(a, 0, NoTrans), Dense(b, 0, NoTrans))
		at, bt := flip(a, m, k), flip(b, k, n)
		if !slices.Equal(product(m, n, Dense(at, 0, Transpose), Dense(bt, 0, Transpose)), want) {
			t.Errorf("%d×%d×%d: other sums of other layouts", m, n, k)
		}
		if !turned {
			continue
		}
		turns++
		if !slices.Equal(flip(product(n, m, Dense(bt, 0, NoTrans), Dense(at, 0, NoTrans)), n, m), want) {
			t.Errorf("%d×%d×%d: other sums transposed", m, n, k)
		}
	}
	if turns < 10 {
		t.Errorf("%d products were transposed: want more", turns)
	}
}

// flip returns the transpose of a matrix.
func flip(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for i := range rows {
		for j := range cols {
			y[j*rows+i] = x[i*cols+j]
		}
	}
	return y
}

func TestGemmChecks(t *testing.T) {
	data := make([]float32, 100)
	ok := Gemm[float32]{M: 10, N: 10, K: 10, A: Dense(data, 0, NoTrans), B: Dense(data, 0, NoTrans),
		C: make([]float32, 100)}
	for name, edit := range map[string]func(g *Gemm[float32]){
		"short A":     func(g *Gemm[float32]) { g.A = Dense(data[:99], 0, NoTrans) },
		"short B":     func(g *Gemm[float32]) { g.B = Dense(data, 11, Transpose) },
		"short C":     func(g *Gemm[float32]) { g.C = g.C[:99] },
		"narrow LDC":  func(g *Gemm[float32]) { g.LDC = 9 },
		"negative":    func(g *Gemm[float32]) { g.K = -1 },
		"no operands": func(g *Gemm[float32]) { g.A = Operand[float32]{} },
	} {
		g := ok
		edit(&g)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			g.Run(nil)
		}()
	}
	ok.Run(nil)
}

// TestGemmSmallAllocates checks that small products are free of allocations.
func TestGemmSmallAllocates(t *testing.T) {
	if gemmSets[0].f32.strip == nil {
		t.Skip("the plain kernels take their scratch from a pool")
	}
	a, b, c := make([]float32, 16*8), make([]float32, 8*16), make([]float32, 16*16)
	n := testing.AllocsPerRun(100, func() {
		Gemm[float32]{M: 16, N: 16, K: 8, A: Dense(a, 0, NoTrans), B: Dense(b, 0, NoTrans), C: c}.Run(nil)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func ExampleGemm() {
	a := []float32{1, 2, 3, 4}
	c := make([]float32, 4)
	Gemm[float32]{M: 2, N: 2, K: 2, A: Dense(a, 0, NoTrans), B: Dense(a, 0, Transpose), C: c}.Run(nil)
	fmt.Println(c)
	// Output: [5 11 11 25]
}
