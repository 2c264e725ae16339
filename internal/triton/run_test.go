package triton

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// kernelText is a kernel of testdata.
func kernelText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".ttir"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// random is an array of normal numbers.
func random(r *rand.Rand, d array.DType, shape ...int) array.Array {
	a := array.New(d, shape...)
	for i := range a.Len() {
		a.Set(i, r.NormFloat64())
	}
	return a
}

// blank is an array of which every element is still to be written.
func blank(d array.DType, shape ...int) array.Array {
	a := array.New(d, shape...)
	for i := range a.Len() {
		a.Set(i, math.NaN())
	}
	return a
}

// near checks that numbers are close: by one part in 100000, or by the last bit of a bf16.
func near(t *testing.T, what string, got array.Array, want []float64) {
	t.Helper()
	bound := 1e-5
	if got.DType() == array.BF16 {
		bound = 1.0 / 256
	}
	for i, w := range want {
		if g := got.At(i); !(math.Abs(g-w) <= bound*max(1, math.Abs(w))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

// forms calls f with a kernel as it is and in one line.
func forms(t *testing.T, name string, f func(t *testing.T, text string)) {
	text := kernelText(t, name)
	t.Run(name, func(t *testing.T) { f(t, text) })
	t.Run(name+" in one line", func(t *testing.T) { f(t, strings.Join(strings.Fields(text), " ")) })
}

func mustRun(t *testing.T, text string, programs int, args ...array.Array) {
	t.Helper()
	if err := Run(text, [3]int{programs, 1, 1}, args); err != nil {
		t.Fatal(err)
	}
}

func TestLogSumExp(t *testing.T) {
	const rows, n = 5, 200
	forms(t, "lse", func(t *testing.T, text string) {
		x, out := random(rand.New(rand.NewPCG(1, 2)), array.BF16, rows, n), blank(array.F32, rows)
		mustRun(t, text, rows, x, out)
		want := make([]float64, rows)
		for r := range rows {
			for c := range n {
				want[r] += math.Exp(x.At(r*n + c))
			}
			want[r] = math.Log(want[r])
		}
		near(t, "lse", out, want)
	})
}

func TestNormGrad(t *testing.T) {
	const rows, n, programs = 7, 13, 3
	forms(t, "norm_grad", func(t *testing.T, text string) {
		r := rand.New(rand.NewPCG(3, 4))
		x, gamma, dy := random(r, array.BF16, rows, n), random(r, array.F32, n), random(r, array.BF16, rows, n)
		rstd, res := random(r, array.F32, rows), random(r, array.BF16, rows, n)
		dx, part := blank(array.BF16, rows, n), blank(array.F32, programs, n)
		mustRun(t, text, programs, x, gamma, dy, rstd, res, dx, part)
		wantDX, wantPart := make([]float64, rows*n), make([]float64, programs*n)
		for i := range rows {
			rs, dot := rstd.At(i), 0.0
			for c := range n {
				dot += dy.At(i*n+c) * gamma.At(c) * x.At(i*n+c) * rs / n
			}
			for c := range n {
				h, d := x.At(i*n+c)*rs, dy.At(i*n+c)
				wantDX[i*n+c] = (d*gamma.At(c)-h*dot)*rs + res.At(i*n+c)
				wantPart[i%programs*n+c] += d * h
			}
		}
		near(t, "dx", dx, wantDX)
		near(t, "part", part, wantPart)
	})
}

func TestAddNorm(t *testing.T) {
	const rows, eps = 5, 1e-5
	for name, n := range map[string]int{"add_norm": 13, "add_norm_whole": 16} {
		forms(t, name, func(t *testing.T, text string) {
			r := rand.New(rand.NewPCG(5, 6))
			a, b, gamma := random(r, array.BF16, rows, n), random(r, array.BF16, rows, n), random(r, array.F32, n)
			sum, y, rstd := blank(array.BF16, rows, n), blank(array.BF16, rows, n), blank(array.F32, rows)
			mustRun(t, text, rows, a, b, gamma, sum, y, rstd)
			wantSum, wantY, wantRstd := make([]float64, rows*n), make([]float64, rows*n), make([]float64, rows)
			for i := range rows {
				squares := 0.0
				for c := range n {
					at := i*n + c
					wantSum[at] = float64(array.ToBFloat16(float32(a.At(at) + b.At(at))).Float32())
					squares += wantSum[at] * wantSum[at] / float64(n)
				}
				wantRstd[i] = 1 / math.Sqrt(squares+eps)
				for c := range n {
					wantY[i*n+c] = wantSum[i*n+c] * wantRstd[i] * gamma.At(c)
				}
			}
			near(t, "sum", sum, wantSum)
			near(t, "y", y, wantY)
			near(t, "rstd", rstd, wantRstd)
		})
	}
}

// FuzzRun: no text makes reading or running it panic.
func FuzzRun(f *testing.F) {
	for _, name := range []string{"lse", "norm_grad", "add_norm", "add_norm_whole"} {
		f.Add(kernelText(f, name))
	}
	for _, c := range snippets {
		f.Add(snippet(c.lines))
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parse(text)
		if err != nil {
			return
		}
		args := make([]array.Array, len(k.params))
		for i, p := range k.params {
			args[i] = array.New(dtypes[p.elem], 200)
		}
		_ = k.run([3]int{2, 2, 1}, args, 1<<18)
	})
}
