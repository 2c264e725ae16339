package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOrderedBits: every set gives the bits of the definition, and a row those that it has alone.
func TestOrderedBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ rows, k, cols int }{
		{1, 1, 16}, {1, 77, 64}, {2, 33, 80}, {3, 5, 128}, {5, 64, 16}, {6, 7, 64}, {7, 19, 96}, {13, 40, 144},
	} {
		o := Ordered{Rows: c.rows, K: c.k, Cols: c.cols, LDY: c.cols + 3, LDX: c.k + 2, LDW: c.cols + 16}
		x, w := normals(r, c.rows*o.LDX), normals(r, c.k*o.LDW)
		half := make([]uint16, len(w))
		F32sToBF16(half, w)
		small := make([]int8, len(w))
		for i := range small {
			small[i] = int8(r.IntN(256) - 128)
		}
		first := normals(r, c.rows*o.LDY)
		want, wantHalf := append([]float32(nil), first...), append([]float32(nil), first...)
		o.f32(&orderedSet{}, want, x, w)
		o.bf16(&orderedSet{}, wantHalf, x, half)
		wantSmall := append([]float32(nil), first...)
		o.i8(&orderedSet{}, wantSmall, x, small)
		for i := range orderedSets {
			set := &orderedSets[i]
			got, gotHalf := append([]float32(nil), first...), append([]float32(nil), first...)
			for row := range c.rows { // one by one
				one := o
				one.Rows = 1
				one.f32(set, got[row*o.LDY:], x[row*o.LDX:], w)
			}
			o.bf16(set, gotHalf, x, half) // together
			wantBits(t, set.name, got, want)
			wantBits(t, set.name+" bf16", gotHalf, wantHalf)
			got = append(got[:0], first...)
			o.i8(set, got, x, small)
			wantBits(t, set.name+" int8", got, wantSmall)
			got = append(got[:0], first...)
			o.f32(set, got, x, w)
			wantBits(t, set.name+" together", got, want)
		}
	}
}

// TestOrderedPages: products with pages have the bits of ordered products with one page after the other.
func TestOrderedPages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ rows, dim, cols, pages int }{
		{1, 64, 64, 1}, {1, 64, 64, 9}, {3, 20, 80, 4}, {6, 33, 128, 6}, {8, 16, 16, 5}, {16, 64, 192, 16},
	} {
		const lanes = OrderedLanes
		at := r.Perm(c.pages)
		for i := range at {
			at[i] *= max(c.dim, c.cols) * lanes
		}
		w := normals(r, c.pages*max(c.dim, c.cols)*lanes)
		half, small := make([]uint16, len(w)), make([]int8, len(w))
		F32sToBF16(half, w)
		for i := range small {
			small[i] = int8(r.IntN(256) - 128)
		}
		side := Ordered{Rows: c.rows, K: c.dim, Cols: lanes, LDY: c.pages*lanes + 3, LDX: c.dim + 1, LDW: lanes}
		below := Ordered{Rows: c.rows, K: lanes, Cols: c.cols, LDY: c.cols + 5, LDX: c.pages*lanes + 2, LDW: c.cols}
		x := normals(r, c.rows*max(side.LDX, below.LDX))
		for i := range orderedSets {
			set := &orderedSets[i]
			pagesBits(t, set.name, side, below, &set.f32, x, w, at)
			pagesBits(t, set.name+" bf16", side, below, &set.bf16, x, half, at)
			pagesBits(t, set.name+" int8", side, below, &set.i8, x, small, at)
		}
	}
}

// pagesBits compares products with all pages with plain ones, page by page.
func pagesBits[W orderedWeight](t *testing.T, what string, side, below Ordered, set *orderedKernels[W],
	x []float32, w []W, at []int) {
	t.Helper()
	plain := &orderedKernels[W]{}
	first := normals(rand.New(rand.NewPCG(5, 6)), side.Rows*max(side.LDY, below.LDY))
	got, want := append([]float32(nil), first...), append([]float32(nil), first...)
	across(side, set, got, x, w, at)
	for p, begin := range at {
		runOrdered(side, plain, want[p*side.Cols:], x, w[begin:])
	}
	wantBits(t, what+" across", got, want)
	got, want = append(got[:0], first...), append(want[:0], first...)
	along(below, set, got, x, w, at)
	for p, begin := range at {
		runOrdered(below, plain, want, x[p*below.K:], w[begin:])
	}
	wantBits(t, what+" along", got, want)
}

func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func wantBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestFMA32 holds the plain body to numbers where rounding twice would be wrong.
func TestFMA32(t *testing.T) {
	a := math.Float32frombits(0x3f800001) // 1 + 2^-23
	for _, c := range []struct{ a, b, c, want float32 }{
		{2, 3, 4, 10},
		{a, a, -1, float32(math.FMA(float64(a), float64(a), -1))},
		// 1 + 2^-24 is half between two floats, and the term below 2^-53 decides.
		{float32(math.Ldexp(1, -24)), 1 + float32(math.Ldexp(1, -23)), 1, math.Float32frombits(0x3f800001)},
		{float32(math.Ldexp(-1, -30)), float32(math.Ldexp(1, -30)), 1 + float32(math.Ldexp(1, -23)), a},
		{float32(math.Inf(1)), 1, 3, float32(math.Inf(1))},
	} {
		if got := fma32(c.a, c.b, c.c); got != c.want {
			t.Errorf("fma32(%v, %v, %v) = %v, want %v", c.a, c.b, c.c, got, c.want)
		}
	}
}

func BenchmarkOrdered(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{1, 6, 48} {
		o := Ordered{Rows: rows, K: 256, Cols: 64, LDY: 64, LDX: 256, LDW: 64}
		x, w, y := normals(r, rows*256), normals(r, 256*64), make([]float32, rows*64)
		b.Run(string(rune('0'+rows/10))+string(rune('0'+rows%10)), func(b *testing.B) {
			for b.Loop() {
				o.F32(y, x, w)
			}
			b.ReportMetric(float64(2*rows*256*64)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
