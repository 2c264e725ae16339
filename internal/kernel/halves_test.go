package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHalves: every number comes back as it was, NaN as NaN, and what is half way and is rounded towards zero
// as its neighbour.
func TestHalves(t *testing.T) {
	src := make([]float32, 0, 1<<20)
	for _, upper := range []uint32{0, 1, 0x007f, 0x0080, 0x3f80, 0x3f81, 0x7f7f, 0x8000, 0xbf80, 0xff7f} {
		for lower := range uint32(1 << 16) {
			src = append(src, math.Float32frombits(upper<<16|lower))
		}
	}
	for range 1 << 18 {
		src = append(src, math.Float32frombits(rand.Uint32()))
	}
	src = append(src, float32(math.Inf(1)), float32(math.Inf(-1)))
	for _, nan := range []uint32{0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff} {
		src = append(src, math.Float32frombits(nan))
	}
	upper, lower, got := make([]uint16, len(src)), make([]int16, len(src)), make([]float32, len(src))
	F32sToHalves(upper, lower, src)
	HalvesToF32s(got, upper, lower)
	for i, x := range src {
		want := math.Float32bits(x)
		if upper[i] != F32ToBF16(x) {
			t.Fatalf("%#x is rounded to %#x, want %#x", want, upper[i], F32ToBF16(x))
		}
		if want&0x1ffff == 0x8000 {
			want--
		}
		if x != x && got[i] != got[i] {
			continue
		}
		if math.Float32bits(got[i]) != want {
			t.Fatalf("%#x comes back as %#x", want, math.Float32bits(got[i]))
		}
	}
}
