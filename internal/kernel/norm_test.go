package kernel

import (
	"fmt"
	"math"
	"testing"
)

// presence says whether an optional operand is there.
type presence int

const (
	absent presence = iota
	present
)

func TestLayerNormAndRMSNorm(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for _, n := range rowLengths {
			for _, gamma := range []presence{absent, present} {
				for _, beta := range []presence{absent, present} {
					checkLayerNorm(t, n, gamma, beta)
					checkRMSNorm(t, n, gamma, beta)
				}
			}
		}
	})
}

// slice returns a random slice, or nil.
func (p presence) slice(seed uint64, n int) []float32 {
	if p == absent {
		return nil
	}
	return randn(seed, n)
}

func checkLayerNorm(t *testing.T, n int, withGamma, withBeta presence) {
	t.Helper()
	x, dy := randn(1, n+1)[1:], randn(2, n)
	AddScalar(x, x, 0.5)
	gamma, beta := withGamma.slice(3, n), withBeta.slice(4, n)
	y, w := make([]float32, n), make([]float64, n)
	mean, rstd := LayerNormRow(y, x, gamma, beta, 1e-5)
	wm, wr := LayerNormRow(w, widen(x), widen(gamma), widen(beta), float64(float32(1e-5)))
	if n > 1 { // one element is rounding noise times 1/sqrt(eps)
		checkNorm(t, "LayerNormRow", y, w, 1e-6)
	}
	if !closeTo(float64(mean), wm, 1e-6, 1e-7) || !closeTo(float64(rstd), wr, 1e-6, 0) {
		t.Errorf("n=%d mean %g rstd %g want %g %g", n, mean, rstd, wm, wr)
	}
	dgamma, dbeta := withGamma.slice(5, n), withBeta.slice(6, n)
	wg, wb := widen(dgamma), widen(dbeta)
	LayerNormGradRow(y, dgamma, dbeta, x, gamma, dy, mean, rstd)
	LayerNormGradRow(w, wg, wb, widen(x), widen(gamma), widen(dy), float64(mean), float64(rstd))
	if n > 2 {
		checkNorm(t, "dx", y, w, 2e-6)
	}
	checkNorm(t, "dgamma", dgamma, wg, 1e-6)
	checkNorm(t, "dbeta", dbeta, wb, 1e-6)
}

func checkRMSNorm(t *testing.T, n int, withGamma, withDGamma presence) {
	t.Helper()
	x, dy := randn(1, n+1)[1:], randn(2, n)
	gamma := withGamma.slice(3, n)
	y, w := make([]float32, n), make([]float64, n)
	rstd := RMSNormRow(y, x, gamma, 1e-6)
	wr := RMSNormRow(w, widen(x), widen(gamma), 1e-6)
	checkNorm(t, "RMSNormRow", y, w, 1e-6)
	if !closeTo(float64(rstd), wr, 1e-6, 0) {
		t.Errorf("n=%d rstd %g want %g", n, rstd, wr)
	}
	dgamma := withDGamma.slice(5, n)
	wg := widen(dgamma)
	RMSNormGradRow(y, dgamma, x, gamma, dy, rstd)
	RMSNormGradRow(w, wg, widen(x), widen(gamma), widen(dy), float64(rstd))
	if n > 2 {
		checkNorm(t, "RMSNorm dx", y, w, 2e-6)
	}
	checkNorm(t, "RMSNorm dgamma", dgamma, wg, 1e-6)
}

// TestLayerNormGradNumerically compares with finite differences in float64.
func TestLayerNormGradNumerically(t *testing.T) {
	const n, h = 9, 1e-6
	x, gamma, beta, dy := widen(randn(1, n)), widen(randn(2, n)), widen(randn(3, n)), widen(randn(4, n))
	y, dx := make([]float64, n), make([]float64, n)
	loss := func() float64 {
		LayerNormRow(y, x, gamma, beta, 1e-5)
		return Dot(y, dy)
	}
	mean, rstd := LayerNormRow(y, x, gamma, beta, 1e-5)
	LayerNormGradRow(dx, nil, nil, x, gamma, dy, mean, rstd)
	for i := range x {
		v := x[i]
		x[i] = v + h
		up := loss()
		x[i] = v - h
		down := loss()
		x[i] = v
		if want := (up - down) / (2 * h); math.Abs(dx[i]-want) > 1e-7 {
			t.Errorf("dx[%d] = %g want %g", i, dx[i], want)
		}
	}
}

// benchRow reports the element rate of f over rows of n.
func benchRow(b *testing.B, name string, n int, f func()) {
	b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
		reportElems(b, n)
	})
}

func BenchmarkNorm(b *testing.B) {
	for _, n := range []int{256, 1024, 4096} {
		x, g, y, dy := randn(1, n), randn(2, n), make([]float32, n), randn(3, n)
		a, c := make([]float32, n), make([]float32, n)
		benchRow(b, "LayerNorm", n, func() { LayerNormRow(y, x, g, g, 1e-5) })
		benchRow(b, "LayerNormGrad", n, func() { LayerNormGradRow(y, a, c, x, g, dy, 0.1, 0.9) })
		benchRow(b, "RMSNorm", n, func() { RMSNormRow(y, x, g, 1e-5) })
		benchRow(b, "RMSNormGrad", n, func() { RMSNormGradRow(y, a, x, g, dy, 0.9) })
	}
}
