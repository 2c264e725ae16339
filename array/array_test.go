package array_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
)

func TestSetAt(t *testing.T) {
	for _, d := range array.DTypes() {
		a := array.New(d, 2, 3)
		a.Set(4, 1)
		if a.At(4) != 1 || a.At(3) != 0 {
			t.Errorf("%v: got %v", d, a)
		}
		if back, err := array.ParseDType(d.String()); err != nil || back != d {
			t.Errorf("%v reads as %v, %v", d, back, err)
		}
	}
}

// TestHalves: every 16-bit number survives the way to float32 and back, and rounding is to nearest, ties to
// even.
func TestHalves(t *testing.T) {
	for bits := range 1 << 16 {
		h, b := array.Float16(bits), array.BFloat16(bits)
		if x := h.Float32(); x == x && array.ToFloat16(x) != h {
			t.Fatalf("half %#x is %v and comes back as %#x", bits, x, array.ToFloat16(x))
		}
		if x := b.Float32(); x == x && array.ToBFloat16(x) != b {
			t.Fatalf("bfloat16 %#x is %v and comes back as %#x", bits, x, array.ToBFloat16(x))
		}
	}
	for x, want := range map[float32]float32{1 + 1.0/2048: 1, 1 + 3.0/2048: 1 + 2.0/1024,
		65520: float32(math.Inf(1)), 65519: 65504} {
		if got := array.ToFloat16(x).Float32(); got != want {
			t.Errorf("half of %v is %v, want %v", x, got, want)
		}
	}
	if nan := float32(math.NaN()); array.ToFloat16(nan).Float32() == array.ToFloat16(nan).Float32() {
		t.Error("a NaN is lost")
	}
}

func TestShapeValid(t *testing.T) {
	for _, s := range []array.Shape{{-1}, {1 << 40, 1 << 40}, {0, 1 << 62, 1 << 62}} {
		if s.Valid() {
			t.Errorf("%v is taken for valid", s)
		}
	}
	if s := (array.Shape{2, 0, 3}); !s.Valid() || s.Len() != 0 {
		t.Errorf("%v: %d elements", s, s.Len())
	}
}

func ExampleFromSlice() {
	a := array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	fmt.Println(a, a.Rows(1, 2), a.Shape().Strides())
	// Output: f32[2,3]{1 2 3 4 5 6} f32[1,3]{4 5 6} [3 1]
}
