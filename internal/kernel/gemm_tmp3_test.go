package kernel

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestTmpOne(t *testing.T) {
	var s gemmShape
	var threads, reps, mc, kc, nc, f64 int
	fmt.Sscan(os.Getenv("SHAPE"), &s.m, &s.n, &s.k, &s.ta, &s.tb, &threads, &reps, &mc, &kc, &nc, &f64)
	set := gemmSets[0]
	if mc > 0 {
		set.f32.mc, set.f32.kc, set.f32.nc = mc, kc, nc
		set.f64.mc, set.f64.kc, set.f64.nc = mc, kc, nc
	}
	if f64 > 0 {
		tmpOne[float64](set, s, threads, reps)
		return
	}
	tmpOne[float32](set, s, threads, reps)
}
func tmpOne[T Float](set gemmSet, s gemmShape, threads, reps int) {
	p := NewPool(threads)
	defer p.Close()
	x, y, c := make([]T, s.m*s.k), make([]T, s.k*s.n), make([]T, s.m*s.n)
	for i := range x { x[i] = T(i%17) }
	for i := range y { y[i] = T(i%17) }
	g := Gemm[T]{M: s.m, N: s.n, K: s.k, A: Dense(x, 0, s.ta), B: Dense(y, 0, s.tb), C: c}
	best := 0.0
	for range reps {
		st := time.Now()
		g.runOn(&set, p)
		best = max(best, 2 * float64(s.m) * float64(s.n) * float64(s.k) / float64(time.Since(st).Nanoseconds()))
	}
	fmt.Printf("RATE %.1f\n", best)
}
