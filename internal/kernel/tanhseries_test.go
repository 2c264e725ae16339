package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTanh64 holds the vectors of float64 to the library's function, from the smallest numbers to infinity.
func TestTanh64(t *testing.T) {
	xs := []float64{
		0,
		math.Copysign(0, -1),
		5e-324,
		-1e-310,
		math.Inf(1),
		math.Inf(-1),
		19,
		19.5,
		20,
		710,
		1e300,
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		xs = append(xs, (2*r.Float64()-1)*math.Pow(10, float64(r.IntN(20)-17)))
	}
	ys := make([]float64, len(xs))
	Tanh(ys, xs)
	for i, x := range xs {
		want := math.Tanh(x)
		if d := math.Abs(ys[i] - want); !(d <= 5e-16*math.Abs(want)) || math.Signbit(ys[i]) != math.Signbit(x) {
			t.Fatalf("tanh %g: got %.17g, want %.17g", x, ys[i], want)
		}
	}
	for n := range 20 { // over itself, with and without a rest
		at := slices.Clone(xs[11 : 11+n])
		if Tanh(at, at); !slices.Equal(at, ys[11:11+n]) {
			t.Errorf("%d elements in place: got %v, want %v", n, at, ys[11:11+n])
		}
	}
	nan := []float64{math.NaN()}
	if Tanh(nan, nan); nan[0] == nan[0] {
		t.Errorf("tanh of NaN is %v", nan[0])
	}
}

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
