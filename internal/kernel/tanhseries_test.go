package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTanhSeries holds vectors to the plain loops, and elements to themselves at another place.
func TestTanhSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 3, 4, 8, 21, 64, 515} {
		for _, k := range []int{1, 2} {
			random := func(count int) [][]float64 {
				out := make([][]float64, count)
				for i := range out {
					out[i] = randomSlice[float64](r, n)
				}
				return out
			}
			y, x, g := random(1)[0], random(k), random(k)
			got, want := random(k), random(k)
			TanhSeries(got, y, x)
			tanhSeries(want, y, x)
			dy, dx := random(1), random(k)
			wantY, wantX := [][]float64{slices.Clone(dy[0])}, random(k)
			TanhSeriesGrad(dy[0], dx, y, x, g)
			tanhSeriesGrad(wantY[0], wantX, y, x, g)
			for i, s := range slices.Concat(got, dy, dx) {
				for e, w := range slices.Concat(want, wantY, wantX)[i] {
					if !(math.Abs(s[e]-w) <= 1e-14*(1+math.Abs(w))) {
						t.Fatalf("%d elements, order %d, result %d, element %d: got %v, want %v", n, k, i, e, s[e], w)
					}
				}
			}
			last := [][]float64{{0}, {0}}[:k]
			TanhSeries(last, y[n-1:], tails(x, n-1))
			for i := range last {
				if last[i][0] != got[i][n-1] {
					t.Errorf("%d elements, order %d: the last is %v, by itself %v", n, k, got[i][n-1], last[i][0])
				}
			}
		}
	}
}

func tails(xs [][]float64, at int) [][]float64 {
	var out [][]float64
	for _, x := range xs {
		out = append(out, x[at:])
	}
	return out
}

// TestTanhInPlace: a result may have its operand's memory, whatever its length.
func TestTanhInPlace(t *testing.T) {
	for n := range 40 {
		x, want := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = float64(i)/7 - 2
		}
		Tanh(want, x)
		Tanh(x, x)
		for i := range x {
			if x[i] != want[i] {
				t.Fatalf("%d elements: element %d is %v in place, %v elsewhere", n, i, x[i], want[i])
			}
		}
	}
}
