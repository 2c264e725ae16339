package kernel

import (
	"math"
	"testing"
)

var rowLengths = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 1000, 5000, 50257}

func TestSoftmaxRows(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for _, n := range rowLengths {
			x := randn(uint64(n), n+1)[1:]
			Axpy(x, 4, x)
			y, w := make([]float32, n), make([]float64, n)
			SoftmaxRow(y, x)
			SoftmaxRow(w, widen(x))
			checkNorm(t, "SoftmaxRow", y, w, 5e-7)
			LogSoftmaxRow(y, x)
			LogSoftmaxRow(w, widen(x))
			checkNorm(t, "LogSoftmaxRow", y, w, 2e-7)
			got, want := float64(LogSumExpRow(x)), LogSumExpRow(widen(x))
			if !closeTo(got, want, 3e-7, 1e-7) {
				t.Errorf("LogSumExpRow n=%d: %g want %g", n, got, want)
			}
		}
	})
}

func TestSoftmaxMasked(t *testing.T) {
	inf := float32(math.Inf(-1))
	eachTable(t, func(t *testing.T) {
		x := []float32{1, inf, 1, inf}
		y := make([]float32, 4)
		SoftmaxRow(y, x)
		if y[0] != 0.5 || y[1] != 0 || y[2] != 0.5 || y[3] != 0 {
			t.Error(y)
		}
		if v := LogSumExpRow([]float32{inf, inf}); v != inf {
			t.Errorf("LogSumExpRow of -Inf = %g", v)
		}
		SoftmaxRow(y[:2], []float32{inf, inf})
		if y[0] == y[0] {
			t.Error("softmax of a row without support must be NaN")
		}
	})
}

func TestCrossEntropy(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for _, n := range rowLengths {
			for _, smoothing := range []float64{0, 0.1} {
				checkCrossEntropy(t, n, smoothing)
			}
		}
	})
}

func checkCrossEntropy(t *testing.T, n int, smoothing float64) {
	t.Helper()
	x := randn(uint64(n), n)
	Axpy(x, 3, x)
	label := n / 2
	logp := make([]float64, n)
	LogSoftmaxRow(logp, widen(x))
	want := -(1 - smoothing) * logp[label]
	grad := make([]float64, n)
	for i, l := range logp {
		want -= smoothing / float64(n) * l
		grad[i] = 0.25 * (math.Exp(l) - smoothing/float64(n))
	}
	grad[label] -= 0.25 * (1 - smoothing)
	loss, lse := CrossEntropyRow(x, label, float32(smoothing))
	if !closeTo(float64(loss), want, 1e-6, 1e-6) {
		t.Errorf("n=%d loss %g want %g", n, loss, want)
	}
	CrossEntropyGradRow(x, x, label, lse, 0.25, float32(smoothing))
	if n > 1 {
		checkNorm(t, "CrossEntropyGradRow", x, grad, 1e-5) // lse is rounded
	}
	CrossEntropyGradRow(x, x, -1, lse, 0.25, 0)
	if l, _ := CrossEntropyRow(x, -1, 0); l != 0 || SumSquares(x) != 0 {
		t.Error("ignored row has a loss or a gradient")
	}
}

func BenchmarkSoftmax(b *testing.B) {
	for _, n := range []int{128, 1024, 50257} {
		x, y := randn(1, n), make([]float32, n)
		benchRow(b, "Softmax", n, func() { SoftmaxRow(y, x) })
		benchRow(b, "SoftmaxGrad", n, func() { SoftmaxGradRow(y, x, x) })
		benchRow(b, "CrossEntropy", n, func() { CrossEntropyRow(x, 3, 0) })
		benchRow(b, "CrossEntropyGrad", n, func() { CrossEntropyGradRow(y, x, 3, 5, 0.1, 0) })
	}
}
