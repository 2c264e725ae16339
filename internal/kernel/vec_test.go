package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachTable runs f once for every instruction set this processor has.
func eachTable(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	best, doubles := simd, simd64
	defer func() { simd, simd64 = best, doubles }()
	for _, nt := range tables() {
		simd, simd64 = nt.table, nt.doubles
		t.Run(nt.name, f)
	}
}

func randn(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func widen(x []float32) []float64 {
	if x == nil {
		return nil
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// relNorm returns |got-want|/|want| in the 2-norm.
func relNorm(got []float32, want []float64) float64 {
	var d, w float64
	for i := range got {
		d += (float64(got[i]) - want[i]) * (float64(got[i]) - want[i])
		w += want[i] * want[i]
	}
	return math.Sqrt(d) / (math.Sqrt(w) + 1e-300)
}

// checkNorm fails if got is further than tol from want in relative norm.
func checkNorm(t *testing.T, name string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) > 0 && !(relNorm(got, want) <= tol) {
		t.Errorf("%s n=%d: relative error %.3g > %.3g", name, len(got), relNorm(got, want), tol)
	}
}

func closeTo(got, want, rel, abs float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	return got == want || math.Abs(got-want) <= rel*math.Abs(want)+abs
}

// span is a range of arguments and the relative and absolute error allowed there.
type span struct{ lo, hi, rel, abs float64 }

var unaryCases = []struct {
	name  string
	f     func(dst, x []float32)
	ref   func(float64) float64
	spans []span
}{
	{"Exp", Exp[float32], math.Exp, []span{{-110, 95, 2e-7, 2e-38}, {-1, 1, 2e-7, 0}}},
	{"Log", Log[float32], math.Log, []span{{1e-37, 1e-30, 2e-7, 0}, {0, 4, 3e-7, 0}, {0, 1e6, 3e-7, 0}, {1e30,
		3e38, 2e-7, 0}}},
	{"Tanh", Tanh[float32], math.Tanh, []span{{-12, 12, 3e-7, 0}, {-0.3, 0.3, 3e-7, 0}, {-1e-6, 1e-6, 2e-7, 0}}},
	{"Erf", Erf[float32], math.Erf, []span{{-6, 6, 3e-7, 0}, {-1, 1, 3e-7, 0}, {-1e-6, 1e-6, 2e-7, 0}}},
	{"Sigmoid", Sigmoid[float32], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		[]span{{-87, 30, 3e-7, 0}, {-110, 200, 3e-7, 2e-38}}},
	{"SiLU", SiLU[float32], func(x float64) float64 { return x / (1 + math.Exp(-x)) },
		[]span{{-86, 30, 4e-7, 0}, {-110, 1000, 4e-7, 1e-36}}},
	{"GELU", GELU[float32], geluOf[float64], []span{{-13, 13, 1e-6, 1e-37}, {-3, 3, 6e-7, 0}, {-100, 100, 1e-6,
		1e-37}}},
	{"GELUTanh", GELUTanh[float32], geluTanhOf[float64],
		[]span{{-3, 3, 1e-6, 0}, {-9, 9, 1e-5, 1e-34}, {-100, 100, 1e-5, 1e-30}}},
	{"Sqrt", Sqrt[float32], math.Sqrt, []span{{0, 100, 1e-7, 0}}},
	{"Rsqrt", Rsqrt[float32], func(x float64) float64 { return 1 / math.Sqrt(x) }, []span{{0, 100, 2e-7, 0}}},
	{"Reciprocal", Reciprocal[float32], func(x float64) float64 { return 1 / x }, []span{{-100, 100, 1e-7, 0}}},
	{"Neg", Neg[float32], func(x float64) float64 { return -x }, []span{{-100, 100, 0, 0}}},
	{"Abs", Abs[float32], math.Abs, []span{{-100, 100, 0, 0}}},
	{"Square", Square[float32], func(x float64) float64 { return x * x }, []span{{-100, 100, 1e-7, 0}}},
	{"ReLU", ReLU[float32], func(x float64) float64 { return max(x, 0) }, []span{{-100, 100, 0, 0}}},
	{"Log1p", Log1p[float32], math.Log1p, []span{{-0.9999, 4, 4e-7, 0}, {-1e-3, 1e-3, 3e-7, 0}, {0, 1e6, 3e-7,
		0}}},
	{"Expm1", Expm1[float32], math.Expm1, []span{{-30, 95, 3e-7, 0}, {-1, 1, 3e-7, 0}, {-1e-5, 1e-5, 2e-7, 0}}},
	{"Softplus", Softplus[float32], softplusOf[float64],
		[]span{{-80, 80, 4e-7, 0}, {-3, 3, 4e-7, 0}, {-100, 200, 4e-7, 1e-36}}},
	{"Sin", Sin[float32], math.Sin, []span{{-100, 100, 2e-7, 0}}},
	{"Cos", Cos[float32], math.Cos, []span{{-100, 100, 2e-7, 0}}},
}

func TestUnaryAccuracy(t *testing.T) {
	const n = 20011
	x, y := make([]float32, n), make([]float32, n)
	eachTable(t, func(t *testing.T) {
		for _, c := range unaryCases {
			for _, s := range c.spans {
				for i := range x {
					x[i] = float32(s.lo + (s.hi-s.lo)*float64(i)/(n-1))
				}
				c.f(y, x)
				worst, at := 0.0, 0
				for i := range x {
					want := float64(float32(c.ref(float64(x[i]))))
					if closeTo(float64(y[i]), want, s.rel, s.abs) {
						continue
					}
					if e := math.Abs(float64(y[i])/want - 1); !(e <= worst) {
						worst, at = e, i
					}
				}
				if worst != 0 {
					t.Errorf("%s(%g) = %g, want %g: relative error %.3g > %.3g",
						c.name, x[at], y[at], c.ref(float64(x[at])), worst, s.rel)
				}
			}
		}
	})
}

func TestUnarySpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	specials := []float64{0, math.Copysign(0, -1), inf, -inf, nan, 1, -1,
		math.MaxFloat32, -math.MaxFloat32, 1.2e-38, -1.2e-38}
	x := make([]float32, len(specials))
	y := make([]float32, len(specials))
	for i, v := range specials {
		x[i] = float32(v)
	}
	eachTable(t, func(t *testing.T) {
		for _, c := range unaryCases {
			c.f(y, x)
			for i := range x {
				want := float64(float32(c.ref(float64(x[i]))))
				if math.Abs(float64(x[i])) > 1e38 && (c.name == "Sin" || c.name == "Cos") {
					continue
				}
				if !closeTo(float64(y[i]), want, 4e-7, 2e-38) {
					t.Errorf("%s(%g) = %g, want %g", c.name, x[i], y[i], want)
				}
			}
		}
	})
}

// TestUnaryLengths checks every short length at every alignment, that nothing
// beyond the destination is written, and in-place use.
func TestUnaryLengths(t *testing.T) {
	for i := range unaryCases {
		c := unaryCases[i]
		eachTable(t, func(t *testing.T) {
			for n := range 71 {
				off := n % 5
				x := randn(uint64(n), n+off)[off:]
				for i := range x {
					x[i] = float32(math.Abs(float64(x[i])))
				}
				buf := make([]float32, n+off+16)
				dst := buf[off : off+n]
				c.f(dst, x)
				for i := range dst {
					want := c.ref(float64(x[i]))
					if !closeTo(float64(dst[i]), want, 4e-7, 1e-37) {
						t.Fatalf("%s n=%d i=%d x=%g: %g want %g", c.name, n, i, x[i], dst[i], want)
					}
				}
				for i, v := range buf {
					if (i < off || i >= off+n) && v != 0 {
						t.Fatalf("%s n=%d wrote outside at %d", c.name, n, i-off)
					}
				}
				c.f(x, x)
				for i := range x {
					if x[i] != dst[i] {
						t.Fatalf("%s n=%d in place differs at %d", c.name, n, i)
					}
				}
			}
		})
	}
}

// TestFloat64GELU holds GELU of float64 to its definition; TestDoubles has the functions with vectors.
func TestFloat64GELU(t *testing.T) {
	x := widen(randn(3, 100))
	y := make([]float64, 100)
	GELU(y, x)
	for i := range x {
		if !closeTo(y[i], 0.5*x[i]*(1+math.Erf(x[i]/math.Sqrt2)), 1e-13, 1e-16) {
			t.Fatalf("GELU(%g) = %g", x[i], y[i])
		}
	}
}

func BenchmarkUnary(b *testing.B) {
	for _, c := range unaryCases {
		for _, n := range []int{4096} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				x, y := randn(1, n), make([]float32, n)
				Abs(x, x)
				for b.Loop() {
					c.f(y, x)
				}
				reportElems(b, n)
			})
		}
	}
}

// reportElems reports the rate in elements.
func reportElems(b *testing.B, n int) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
}
