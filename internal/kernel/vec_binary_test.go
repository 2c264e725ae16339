package kernel

import (
	"math"
	"testing"
)

// spare takes results that a case does not look at.
var spare [8192]float32

var binaryCases = []struct {
	name string
	f    func(dst, x, y []float32)
	ref  func(dst, x, y []float64)
	tol  float64
}{
	{"Add", Add[float32], Add[float64], 1e-7},
	{"Sub", Sub[float32], Sub[float64], 1e-7},
	{"Mul", Mul[float32], Mul[float64], 1e-7},
	{"Div", Div[float32], Div[float64], 1e-7},
	{"Max", Max[float32], Max[float64], 0},
	{"Min", Min[float32], Min[float64], 0},
	{"SwiGLU", SwiGLU[float32], SwiGLU[float64], 3e-7},
	{"SiLUGrad", SiLUGrad[float32], SiLUGrad[float64], 3e-7},
	{"GELUGrad", GELUGrad[float32], GELUGrad[float64], 3e-7},
	{"GELUTanhGrad", GELUTanhGrad[float32], GELUTanhGrad[float64], 5e-7},
	{"MulAdd", func(d, x, y []float32) { MulAdd(d, x, y, x) }, func(d, x, y []float64) { MulAdd(d, x, y, x) },
		2e-7},
	{"Axpy", func(d, x, y []float32) { copy(d, x); Axpy(d, 1.5, y) },
		func(d, x, y []float64) { copy(d, x); Axpy(d, 1.5, y) }, 2e-7},
	{"AddScalar", func(d, x, _ []float32) { AddScalar(d, x, 1.25) },
		func(d, x, _ []float64) { AddScalar(d, x, 1.25) }, 1e-7},
	{"MulScalar", func(d, x, _ []float32) { MulScalar(d, x, 1.25) },
		func(d, x, _ []float64) { MulScalar(d, x, 1.25) }, 1e-7},
	{"SoftmaxGradRow", SoftmaxGradRow[float32], SoftmaxGradRow[float64], 1e-6},
	{"SwiGLUGrad.gate", func(d, x, y []float32) { SwiGLUGrad(d, spare[:len(d)], x, y, y) },
		func(d, x, y []float64) { SwiGLUGrad(d, make([]float64, len(d)), x, y, y) }, 3e-7},
	{"SwiGLUGrad.up", func(d, x, y []float32) { SwiGLUGrad(spare[:len(d)], d, x, y, y) },
		func(d, x, y []float64) { SwiGLUGrad(make([]float64, len(d)), d, x, y, y) }, 3e-7},
}

func TestBinary(t *testing.T) {
	for _, c := range binaryCases {
		t.Run(c.name, func(t *testing.T) {
			eachTable(t, func(t *testing.T) {
				for n := range 71 {
					checkBinary(t, c.f, c.ref, n, 1, c.tol)
				}
				checkBinary(t, c.f, c.ref, 5003, 3, c.tol)
			})
		})
	}
}

func checkBinary(t *testing.T, f func(d, x, y []float32), ref func(d, x, y []float64), n int, scale float32,
	tol float64) {
	t.Helper()
	off := n % 3
	x, y := randn(1, n+off)[off:], randn(2, n+off)[off:]
	for i := range x {
		x[i] *= scale
	}
	buf := make([]float32, n+20)
	want := make([]float64, n)
	f(buf[off:off+n], x, y)
	ref(want, widen(x), widen(y))
	checkNorm(t, "result", buf[off:off+n], want, tol)
	if buf[off+n] != 0 || off > 0 && buf[off-1] != 0 {
		t.Errorf("n=%d wrote outside", n)
	}
}

func TestMaxMinPropagateNaN(t *testing.T) {
	nan := float32(math.NaN())
	eachTable(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			for at := range n {
				x, y, d := randn(1, n), randn(2, n), make([]float32, n)
				x[at] = nan
				for _, f := range []func(d, x, y []float32){Max[float32], Min[float32]} {
					f(d, x, y)
					a := d[at]
					f(d, y, x)
					if a == a || d[at] == d[at] {
						t.Fatalf("n=%d at=%d: NaN lost", n, at)
					}
				}
				if v := MaxOf(x); v == v {
					t.Fatalf("MaxOf n=%d at=%d: NaN lost", n, at)
				}
				if v := MinOf(x); v == v {
					t.Fatalf("MinOf n=%d at=%d: NaN lost", n, at)
				}
			}
		}
	})
}

func TestGradSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{0, 1e30, -1e30, inf, -inf, nan}
	want := []float64{0.5, 1, 0, 1, 0, math.NaN()}
	one := []float32{1, 1, 1, 1, 1, 1}
	eachTable(t, func(t *testing.T) {
		for i, f := range []func(d, x, y []float32){GELUGrad[float32], GELUTanhGrad[float32], SiLUGrad[float32]} {
			d := make([]float32, len(x))
			f(d, x, one)
			for k := range d {
				if !closeTo(float64(d[k]), want[k], 1e-6, 0) {
					t.Errorf("gradient %d at %g = %g, want %g", i, x[k], d[k], want[k])
				}
			}
		}
	})
}

func BenchmarkBinary(b *testing.B) {
	for _, c := range binaryCases {
		b.Run(c.name, func(b *testing.B) {
			const n = 4096
			x, y, d := randn(1, n), randn(2, n), make([]float32, n)
			for b.Loop() {
				c.f(d, x, y)
			}
			reportElems(b, n)
		})
	}
}
