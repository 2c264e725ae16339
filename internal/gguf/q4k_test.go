package gguf_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/quant"
)

func readBack(t *testing.T, kind gguf.Kind, data []byte, n int) []float32 {
	t.Helper()
	f := parsed(t, encoded(t, nil, gguf.Stored{Name: "w", Shape: array.Shape{1, n}, Kind: kind, Data: data}))
	a, err := f.Read("w")
	if err != nil {
		t.Fatal(err)
	}
	return array.Data[float32](a)
}

func squared(a, b []float32) (sum float64) {
	for i := range a {
		e := float64(a[i]) - float64(b[i])
		sum += e * e
	}
	return sum
}

// TestEncodeQ4K: what the reader, which testdata/blocks.py holds to the format's definition, makes of written
// blocks is near what they were made of: no element is further off than its group's steps and the rounding of
// their scales allow, and all together lose less than Q4_0 does, on elements with a mean above all.
func TestEncodeQ4K(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 256 * 40
	for _, mean := range []float64{0, 0.7, -2} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((r.NormFloat64() + mean) * math.Exp(float64(i/32%5)-8))
		}
		got := readBack(t, gguf.Q4_K, gguf.EncodeQ4K(x), n)
		for b := 0; b < n; b += 256 {
			widest := 0.0
			for g := b; g < b+256; g += 32 {
				lo, hi := 0.0, 0.0
				for _, v := range x[g : g+32] {
					lo, hi = min(lo, float64(v)), max(hi, float64(v))
				}
				widest = max(widest, hi-lo)
			}
			for i := b; i < b+256; i++ {
				if math.Abs(float64(got[i]-x[i])) > 0.12*widest {
					t.Fatalf("mean %v, element %d: got %v, want %v, of a block of %v", mean, i, got[i], x[i], widest)
				}
			}
		}
		c := quant.Config{Bits: 4, Group: 32, Signed: true, Scale: quant.HalfScale}
		_, plain := gguf.Blocks(quant.Round(c, x, 1, n))
		limit := 0.95
		if mean != 0 {
			limit = 0.8
		}
		ours, theirs := squared(got, x), squared(readBack(t, gguf.Q4_0, plain, n), x)
		if ours > limit*theirs {
			t.Errorf("mean %v: squared error %v, want less than %v of Q4_0's %v", mean, ours, limit, theirs)
		}
	}
}

// TestEncodeQ4KEnds: zeros stay zeros, elements of one sign and equal ones come back, and blocks are written
// one by one.
func TestEncodeQ4KEnds(t *testing.T) {
	for name, f := range map[string]func(i int) float32{
		"zeros":      func(int) float32 { return 0 },
		"sixteenths": func(i int) float32 { return float32(i%16) * 63 / 64 },
		"negative":   func(i int) float32 { return -float32(i%16) * 63 / 64 },
		"equal":      func(int) float32 { return 63 * 15 / 1024.0 },
	} {
		x := make([]float32, 512)
		for i := range x {
			x[i] = f(i)
		}
		b := gguf.EncodeQ4K(x)
		if !bytes.Equal(b[:144], gguf.EncodeQ4K(x[:256])) || !bytes.Equal(b[144:], b[:144]) {
			t.Errorf("%s: a block depends on those beside it", name)
		}
		for i, got := range readBack(t, gguf.Q4_K, b, 512) {
			if math.Abs(float64(got-x[i])) > 1e-3*math.Abs(float64(x[i])) {
				t.Fatalf("%s: element %d: got %v, want %v", name, i, got, x[i])
			}
		}
	}
}
