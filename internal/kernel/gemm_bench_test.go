package kernel

import (
	"fmt"
	"testing"
	"time"
)

// gemmShape is a product of a benchmark.
type gemmShape struct {
	m, n, k int
	ta, tb  Trans
}

func (s gemmShape) String() string {
	return fmt.Sprintf("%dx%dx%d/%c%c", s.m, s.n, s.k, "NT"[s.ta], "NT"[s.tb])
}

// benchGemm reports the rate of the fastest run: others only tell what else
// the machine was doing.
func benchGemm[T Float](b *testing.B, set *gemmSet, threads int, s gemmShape) {
	p := NewPool(threads)
	defer p.Close()
	x, y, c := make([]T, s.m*s.k), make([]T, s.k*s.n), make([]T, s.m*s.n)
	for i := range x {
		x[i] = T(i%17) * 0.1
	}
	for i := range y {
		y[i] = T(i%13) * 0.1
	}
	g := Gemm[T]{M: s.m, N: s.n, K: s.k, A: Dense(x, 0, s.ta), B: Dense(y, 0, s.tb), C: c}
	runBest(b, 2*float64(s.m)*float64(s.n)*float64(s.k), func() { g.runOn(set, p) })
}

func runBest(b *testing.B, flops float64, f func()) {
	b.ReportAllocs()
	best := time.Hour
	reps := 1 + int(2e5/flops) // enough to be seen by the clock
	for b.Loop() {
		start := time.Now()
		for range reps {
			f()
		}
		best = min(best, time.Since(start)/time.Duration(reps))
	}
	b.ReportMetric(flops/float64(best.Nanoseconds()), "GFLOP/s")
}

func BenchmarkGemmSquare(b *testing.B) {
	for i := range gemmSets {
		set := &gemmSets[i]
		for _, threads := range []int{1, 2} {
			for _, n := range []int{256, 1024, 2048} {
				s := gemmShape{m: n, n: n, k: n}
				b.Run(fmt.Sprintf("%s/f32/%d/t%d", set.name, n, threads),
					func(b *testing.B) { benchGemm[float32](b, set, threads, s) })
				b.Run(fmt.Sprintf("%s/f64/%d/t%d", set.name, n, threads),
					func(b *testing.B) { benchGemm[float64](b, set, threads, s) })
			}
		}
	}
}

func BenchmarkGemmTraining(b *testing.B) {
	shapes := []gemmShape{
		{2048, 768, 256, NoTrans, NoTrans}, {2048, 768, 256, NoTrans, Transpose},
		{2048, 1024, 256, NoTrans, NoTrans}, {2048, 1024, 256, NoTrans, Transpose},
		{2048, 256, 1024, NoTrans, NoTrans}, {2048, 256, 1024, NoTrans, Transpose},
		{2048, 8192, 256, NoTrans, NoTrans}, {2048, 8192, 256, NoTrans, Transpose},
		{8192, 256, 2048, Transpose, NoTrans}, {256, 1024, 2048, Transpose, NoTrans},
		{2048, 256, 8192, NoTrans, NoTrans}, {2048, 256, 8192, NoTrans, Transpose},
	}
	for _, threads := range []int{1, 2} {
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%v/t%d", s, threads), func(b *testing.B) {
				benchGemm[float32](b, &gemmSets[0], threads,
					s)
			})
		}
	}
}

func BenchmarkGemmSmall(b *testing.B) {
	for _, s := range []gemmShape{
		{16, 8, 16, NoTrans, NoTrans}, {16, 16, 8, NoTrans, Transpose}, {16, 32, 64, NoTrans, Transpose},
		{16, 64, 32, NoTrans, NoTrans}, {32, 32, 32, NoTrans, NoTrans}, {64, 64, 64, NoTrans, NoTrans},
		{64, 64, 64, NoTrans, Transpose}, {128, 128, 64, NoTrans, Transpose}, {8, 1024, 1024, NoTrans, NoTrans},
		{16, 1024, 1024, NoTrans, Transpose}, {32, 1024, 1024, NoTrans, NoTrans}, {48, 1024, 1024, NoTrans,
			NoTrans},
	} {
		b.Run(s.String(), func(b *testing.B) { benchGemm[float32](b, &gemmSets[0], 1, s) })
	}
}

func BenchmarkGemmSkinny(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, s := range []gemmShape{
			{1, 4096, 4096, NoTrans, NoTrans}, {1, 4096, 4096, NoTrans, Transpose},
			{4, 4096, 4096, NoTrans, NoTrans}, {4, 4096, 4096, NoTrans, Transpose},
			{4096, 1, 4096, NoTrans, NoTrans}, {4096, 1, 4096, Transpose, NoTrans},
			{1, 1024, 256, NoTrans, NoTrans}, {1, 1024, 256, NoTrans, Transpose},
		} {
			b.Run(fmt.Sprintf("%v/t%d", s, threads), func(b *testing.B) {
				benchGemm[float32](b, &gemmSets[0], threads,
					s)
			})
		}
	}
}
