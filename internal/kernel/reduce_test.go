package kernel

import (
	"math"
	"testing"
)

func TestSums(t *testing.T) {
	lengths := []int{4095, 4096, 4097, 8192, 50257, 12288, 20481}
	for n := range 71 {
		lengths = append(lengths, n)
	}
	eachTable(t, func(t *testing.T) {
		for _, n := range lengths {
			x, y := randn(1, n+1)[1:], randn(2, n)
			var sum, abs, sq, dot float64
			lo, hi := math.Inf(1), math.Inf(-1)
			for i := range x {
				v := float64(x[i])
				sum += v
				abs += math.Abs(v)
				sq += v * v
				dot += v * float64(y[i])
				lo, hi = min(lo, v), max(hi, v)
			}
			for _, c := range []struct {
				name      string
				got, want float64
			}{
				{"Sum", float64(Sum(x)), sum}, {"SumSquares", float64(SumSquares(x)), sq},
				{"Dot", float64(Dot(x, y)), dot},
			} {
				if !closeTo(c.got, c.want, 0, 3e-7*abs) {
					t.Errorf("%s n=%d: %g want %g", c.name, n, c.got, c.want)
				}
			}
			if float64(MaxOf(x)) != hi || float64(MinOf(x)) != lo {
				t.Errorf("n=%d: MaxOf %g MinOf %g want %g %g", n, MaxOf(x), MinOf(x), hi, lo)
			}
		}
	})
}

// TestSumIsTreeOfBlocks checks the contract that lets callers sum on threads.
func TestSumIsTreeOfBlocks(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for _, blocks := range []int{1, 2, 3, 5, 6, 7, 8, 13, 29} {
			x := randn(uint64(blocks), blocks*SumBlock-17)
			var parts []float32
			for lo := 0; lo < len(x); lo += SumBlock {
				parts = append(parts, Sum(x[lo:min(len(x), lo+SumBlock)]))
			}
			if Tree(parts) != Sum(x) || recursive(parts) != Sum(x) {
				t.Errorf("%d blocks: %g %g %g", blocks, Tree(parts), recursive(parts), Sum(x))
			}
		}
	})
}

// recursive returns the definition that Tree's doc comment gives.
func recursive(parts []float32) float32 {
	n := len(parts)
	if n == 1 {
		return parts[0]
	}
	half := 1
	for half*2 < n {
		half *= 2
	}
	return recursive(parts[:half]) + recursive(parts[half:])
}

func TestAddRows(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		for _, rows := range []int{0, 1, 3, 255, 257, 1000} {
			for _, cols := range []int{1, 7, 8, 15, 16, 17, 63, 64, 65, 100, 200} {
				src := randn(uint64(rows+cols), rows*cols)
				want := make([]float64, cols)
				for i := range src {
					want[i%cols] += float64(src[i])
				}
				dst := randn(1, cols)
				AddRows(dst, src, rows, cols)
				checkNorm(t, "AddRows", dst, want, 1e-5)
				checkColumnSplit(t, dst, src, rows, cols)
			}
		}
	})
}

// checkColumnSplit checks that columns summed apart give the same bits.
func checkColumnSplit(t *testing.T, want, src []float32, rows, cols int) {
	t.Helper()
	if rows == 0 {
		return
	}
	got := make([]float32, cols)
	cutAt := cols / 3
	AddRowsStride(got[:cutAt], src, rows, cols)
	AddRowsStride(got[cutAt:], src[cutAt:], rows, cols)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("rows=%d cols=%d: column %d depends on the split", rows, cols, i)
		}
	}
}

func BenchmarkReduce(b *testing.B) {
	const n = 16384
	x, y := randn(1, n), randn(2, n)
	for name, f := range map[string]func(){
		"Sum": func() { Sum(x) }, "SumSquares": func() { SumSquares(x) },
		"Dot": func() { Dot(x, y) }, "MaxOf": func() { MaxOf(x) },
		"AddRows256": func() { AddRows(y[:256], x, 64, 256) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			reportElems(b, n)
		})
	}
}
