package kernel

import (
	"math"
	"testing"
)

// halfFormat is one of the 16 bit formats, for tests of both.
type halfFormat struct {
	name         string
	widen        func(uint16) float32
	narrow       func(float32) uint16
	inf          uint16
	widenSlice   func([]float32, []uint16)
	narrowSlice  func([]uint16, []float32)
	firstTooHigh float32
}

var halfFormats = []halfFormat{
	{"bf16", BF16ToF32, F32ToBF16, 0x7f80, BF16sToF32, F32sToBF16, math.MaxFloat32},
	{"f16", F16ToF32, F32ToF16, 0x7c00, F16sToF32, F32sToF16, 65520},
}

func TestHalfRoundTrip(t *testing.T) {
	for _, f := range halfFormats {
		for h := range 1 << 16 {
			v := f.widen(uint16(h))
			back := f.narrow(v)
			if math.IsNaN(float64(v)) {
				if !math.IsNaN(float64(f.widen(back))) {
					t.Fatalf("%s: NaN %#04x became %#04x", f.name, h, back)
				}
				continue
			}
			if back != uint16(h) {
				t.Fatalf("%s: %#04x is %v, which became %#04x", f.name, h, v, back)
			}
		}
	}
}

func TestHalfRounding(t *testing.T) {
	for _, f := range halfFormats {
		for h := range f.inf - 1 {
			lo, hi := f.widen(h), f.widen(h+1)
			mid := float32((float64(lo) + float64(hi)) / 2)
			even := h + h&1
			for _, c := range []struct {
				v    float32
				want uint16
			}{{mid, even}, {math.Nextafter32(mid, 0), h}, {math.Nextafter32(mid, hi), h + 1}} {
				if got := f.narrow(c.v); got != c.want {
					t.Fatalf("%s: %v became %#04x, want %#04x", f.name, c.v, got, c.want)
				}
				if got := f.narrow(-c.v); got != c.want|0x8000 {
					t.Fatalf("%s: %v became %#04x, want %#04x", f.name, -c.v, got, c.want|0x8000)
				}
			}
		}
	}
}

func TestHalfSpecial(t *testing.T) {
	for _, f := range halfFormats {
		inf := float32(math.Inf(1))
		for _, c := range []struct {
			v    float32
			want uint16
		}{{inf, f.inf}, {-inf, f.inf | 0x8000}, {f.firstTooHigh, f.inf}, {0, 0}, {float32(math.Copysign(0, -1)),
			0x8000}} {
			if got := f.narrow(c.v); got != c.want {
				t.Errorf("%s: %v became %#04x, want %#04x", f.name, c.v, got, c.want)
			}
		}
		low := math.Float32frombits(0x7f800001) // a NaN whose payload is cut off
		if h := f.narrow(low); !math.IsNaN(float64(f.widen(h))) {
			t.Errorf("%s: NaN became %#04x", f.name, h)
		}
	}
}

func TestHalfSlices(t *testing.T) {
	for _, f := range halfFormats {
		src := make([]float32, widenChunk+29)
		for i := range src {
			src[i] = float32(i-100) * 0.37
		}
		half, back := make([]uint16, len(src)+1), make([]float32, len(src)+1)
		f.narrowSlice(half, src)
		f.widenSlice(back, half[:len(src)])
		for i, v := range src {
			if half[i] != f.narrow(v) || back[i] != f.widen(half[i]) {
				t.Errorf("%s: %v became %#04x and %v", f.name, v, half[i], back[i])
			}
		}
	}
}
