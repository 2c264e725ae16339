package triton

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
)

// random returns an array of normal numbers.
func random(r *rand.Rand, d array.DType, shape ...int) array.Array {
	a := array.New(d, shape...)
	for i := range a.Len() {
		a.Set(i, r.NormFloat64())
	}
	return a
}

// blank returns an array of which every element is still to be written.
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

func mustRun(t *testing.T, k *Kernel, args ...array.Array) {
	t.Helper()
	if err := Run(k.Text(), [3]int{k.Programs, 1, 1}, args); err != nil {
		t.Fatalf("%v\n%s", err, k.Text())
	}
}

// TestLogSumExp: rows shorter and longer than what a program holds.
func TestLogSumExp(t *testing.T) {
	const rows = 3
	for _, n := range []int{1, 200, lsePart, 2*lsePart + 7} {
		for _, d := range []array.DType{array.BF16, array.F16, array.F32} {
			x, out := random(rand.New(rand.NewPCG(1, 2)), d, rows, n), blank(array.F32, rows)
			mustRun(t, LogSumExp(d, rows, n), x, out)
			want := make([]float64, rows)
			for r := range rows {
				for c := range n {
					want[r] += math.Exp(x.At(r*n + c))
				}
				want[r] = math.Log(want[r])
			}
			near(t, "log-sum-exp", out, want)
		}
	}
}

// TestSoftmaxGrad: a label in a row's first part, in its last, and in none; by itself, and with the sums that
// it needs.
func TestSoftmaxGrad(t *testing.T) {
	const rows = 3
	target := Target{Hot: 0.9, Even: 0.01}
	for _, n := range []int{50, lsePart + 11, 2*lossPart + 3} {
		r := rand.New(rand.NewPCG(7, 8))
		x, labels, lse, dloss := random(r, array.BF16, rows, n), array.New(array.I32, rows), blank(array.F32,
			rows), random(r, array.F32, rows)
		for i, label := range []int{3, n - 1, -100} {
			labels.Set(i, float64(label))
		}
		sums, want := make([]float64, rows), make([]float64, rows*n)
		for i := range rows {
			for c := range n {
				sums[i] += math.Exp(x.At(i*n + c))
			}
			sums[i] = math.Log(sums[i])
			for c := range n {
				should := target.Even
				if float64(c) == labels.At(i) {
					should = target.Hot
				}
				want[i*n+c] = (math.Exp(x.At(i*n+c)-sums[i]) - should) * dloss.At(i)
			}
		}
		both, alone := blank(array.BF16, rows, n), blank(array.BF16, rows, n)
		mustRun(t, CrossEntropy(array.BF16, rows, n, target), x, labels, dloss, lse, both)
		near(t, "log-sum-exp", lse, sums)
		near(t, "gradient beside its sums", both, want)
		mustRun(t, SoftmaxGrad(array.BF16, rows, n, target), x, labels, lse, dloss, alone)
		near(t, "gradient", alone, want)
	}
}

// TestSwiGLU: rows of whole parts, and others.
func TestSwiGLU(t *testing.T) {
	const rows = 3
	for _, n := range []int{1, 300, gatePart, 2 * gatePart, 2*gatePart + 7} {
		x, y := random(rand.New(rand.NewPCG(9, 1)), array.BF16, rows, 2*n), blank(array.BF16, rows, n)
		mustRun(t, SwiGLU(array.BF16, rows, n), x, y)
		want := make([]float64, rows*n)
		for i := range want {
			gate, up := x.At(i/n*2*n+i%n), x.At(i/n*2*n+n+i%n)
			want[i] = gate / (1 + math.Exp(-gate)) * up
		}
		near(t, "result", y, want)
	}
}

// TestRMSNormGrad: fewer rows than programs, and more.
func TestRMSNormGrad(t *testing.T) {
	for _, c := range []struct{ rows, n int }{{7, 13}, {gradWarps + 3, 4}, {5, 16}} {
		rows, n, programs := c.rows, c.n, GradSums(c.rows, c.n)
		r := rand.New(rand.NewPCG(3, 4))
		x, gamma, dy := random(r, array.BF16, rows, n), random(r, array.F32, n), random(r, array.BF16, rows, n)
		rstd, rest := random(r, array.F32, rows), random(r, array.BF16, rows, n)
		dx, sums := blank(array.BF16, rows, n), blank(array.F32, programs, n)
		mustRun(t, RMSNormGrad(array.BF16, array.F32, rows, n), x, gamma, dy, rstd, rest, dx, sums)
		wantDX, wantSums := make([]float64, rows*n), make([]float64, programs*n)
		for i := range rows {
			rs, dot := rstd.At(i), 0.0
			for c := range n {
				dot += dy.At(i*n+c) * gamma.At(c) * x.At(i*n+c) * rs / float64(n)
			}
			for c := range n {
				h, d := x.At(i*n+c)*rs, dy.At(i*n+c)
				wantDX[i*n+c] = (d*gamma.At(c)-h*dot)*rs + rest.At(i*n+c)
				wantSums[i%programs*n+c] += d * h
			}
		}
		near(t, "gradient", dx, wantDX)
		near(t, "sums", sums, wantSums)
	}
}

// TestAddRMSNorm: rows that fill a block and rows that do not.
func TestAddRMSNorm(t *testing.T) {
	const rows, eps = 5, 1e-5
	for _, n := range []int{1, 13, 16} {
		r := rand.New(rand.NewPCG(5, 6))
		a, b, gamma := random(r, array.BF16, rows, n), random(r, array.BF16, rows, n), random(r, array.F32, n)
		sum, y, rstd := blank(array.BF16, rows, n), blank(array.BF16, rows, n), blank(array.F32, rows)
		mustRun(t, AddRMSNorm(array.BF16, array.F32, rows, n, eps), a, b, gamma, sum, y, rstd)
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
		near(t, "result", y, wantY)
		near(t, "1/root mean square", rstd, wantRstd)
	}
}

// FuzzRun: no text makes reading or running it panic.
func FuzzRun(f *testing.F) {
	for _, k := range []*Kernel{LogSumExp(array.BF16, 2, 100), RMSNormGrad(array.BF16, array.F32, 7, 13),
		AddRMSNorm(array.F16, array.BF16, 2, 16, 1e-5),
		CrossEntropy(array.BF16, 2, 9, Target{Hot: 1}), SwiGLU(array.BF16, 2, 3)} {
		f.Add(k.Text())
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
