package kernel

import (
	"fmt"
	"math"
	"testing"
)

func TestAdamW(t *testing.T) {
	c := AdamWCoef{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, GradScale: 0.5}
	eachTable(t, func(t *testing.T) {
		for n := range 71 {
			off := n % 3
			p, g, m, v := randn(1, n+off)[off:], randn(2, n), randn(3, n), randn(4, n)
			Square(v, v)
			p64, g64, m64, v64 := widen(p), widen(g), widen(m), widen(v)
			for step := 1.0; step <= 3; step++ {
				c.Bias1, c.Bias2 = 1-math.Pow(c.Beta1, step), 1-math.Pow(c.Beta2, step)
				referenceAdamW(p64, g64, m64, v64, c)
				if step == 2 { // the form with separate outputs
					po, mo, vo := make([]float32, n), make([]float32, n), make([]float32, n)
					AdamWStepTo(po, mo, vo, p, g, m, v, c)
					p, m, v = po, mo, vo
					continue
				}
				AdamWStep(p, g, m, v, c)
			}
			checkNorm(t, "p", p, p64, 2e-7)
			checkNorm(t, "m", m, m64, 2e-7)
			checkNorm(t, "v", v, v64, 3e-7)
		}
	})
}

// referenceAdamW follows torch.optim.AdamW line by line.
func referenceAdamW(p, g, m, v []float64, c AdamWCoef) {
	for i := range p {
		gi := g[i] * c.GradScale
		p[i] *= 1 - c.LR*c.WeightDecay
		m[i] += (1 - c.Beta1) * (gi - m[i])
		v[i] = c.Beta2*v[i] + (1-c.Beta2)*gi*gi
		p[i] -= c.LR / c.Bias1 * m[i] / (math.Sqrt(v[i])/math.Sqrt(c.Bias2) + c.Eps)
	}
}

func TestAdamWFloat64(t *testing.T) {
	c := AdamWCoef{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, GradScale: 1, Bias1: 0.1,
		Bias2: 0.001}
	p, g := widen(randn(1, 33)), widen(randn(2, 33))
	m, v := make([]float64, 33), make([]float64, 33)
	wp, wm, wv := widen(randn(1, 33)), make([]float64, 33), make([]float64, 33)
	AdamWStep(p, g, m, v, c)
	referenceAdamW(wp, g, wm, wv, c)
	for i := range p {
		if !closeTo(p[i], wp[i], 1e-14, 1e-17) {
			t.Errorf("p[%d] = %g want %g", i, p[i], wp[i])
		}
	}
}

// TestAdamWDenormalMoments checks that moments that have all but decayed leave
// finite parameters, and that the kernel restores the rounding state.
func TestAdamWDenormalMoments(t *testing.T) {
	c := AdamWCoef{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Bias1: 1, Bias2: 1, GradScale: 1}
	eachTable(t, func(t *testing.T) {
		p, g, m, v := randn(1, 40), make([]float32, 40), make([]float32, 40), make([]float32, 40)
		for i := range m {
			m[i], v[i] = 1e-40, 1e-41
		}
		AdamWStep(p, g, m, v, c)
		checkNorm(t, "p", p, widen(randn(1, 40)), 1e-7)
		if tiny := m[0] + 1e-40; tiny == 0 {
			t.Error("denormals are still flushed after the kernel")
		}
	})
}

func BenchmarkAdamWDenormal(b *testing.B) {
	const n = 4096
	c := AdamWCoef{LR: 1e-3, Beta1: 1, Beta2: 1, Eps: 1e-8, Bias1: 1, Bias2: 1, GradScale: 1}
	p, g, m, v := randn(1, n), make([]float32, n), make([]float32, n), make([]float32, n)
	mOut, vOut := make([]float32, n), make([]float32, n)
	AddScalar(m, m, 1e-40)
	AddScalar(v, v, 1e-41)
	benchRow(b, "step", n, func() { AdamWStepTo(p, mOut, vOut, p, g, m, v, c) })
}

func BenchmarkAdamW(b *testing.B) {
	c := AdamWCoef{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Bias1: 0.5, Bias2: 0.5, GradScale: 1}
	for _, n := range []int{4096, 1 << 22} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, g, m, v := randn(1, n), randn(2, n), randn(3, n), randn(4, n)
			Square(v, v)
			b.SetBytes(int64(28 * n)) // four streams read, three written
			for b.Loop() {
				AdamWStep(p, g, m, v, c)
			}
			reportElems(b, n)
		})
	}
}
