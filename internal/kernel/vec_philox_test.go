package kernel

import (
	"math"
	"testing"
)

// TestPhiloxKnownAnswers uses the vectors of the Random123 distribution.
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key           [2]uint32
		counter, want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{0xffffffff, 0xffffffff}, [4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.key, c.counter); got != c.want {
			t.Errorf("Philox(%x, %x) = %x, want %x", c.key, c.counter, got, c.want)
		}
	}
}

// TestDrawsDependOnIndexOnly splits a fill at every place and compares bits.
func TestDrawsDependOnIndexOnly(t *testing.T) {
	const n, key, start = 300, 0x0123456789abcdef, 1<<34 - 150
	plain := make([]float32, n)
	best := simd
	simd = table32{}
	UniformAt(plain, key, start)
	simd = best
	eachTable(t, func(t *testing.T) {
		for _, fill := range []func([]float32, uint64, uint64){UniformAt[float32], NormalAt[float32]} {
			whole, split := make([]float32, n), make([]float32, n)
			fill(whole, key, start)
			for at := range n + 1 {
				fill(split[:at], key, start)
				fill(split[at:], key, start+uint64(at))
				for i := range split {
					if split[i] != whole[i] {
						t.Fatalf("split at %d: element %d differs", at, i)
					}
				}
			}
		}
		got := make([]float32, n)
		UniformAt(got, key, start)
		for i := range got {
			if got[i] != plain[i] {
				t.Fatalf("element %d: %g, plain %g", i, got[i], plain[i])
			}
		}
	})
}

func TestDrawsAgreeAcrossTypes(t *testing.T) {
	const n = 1000
	a, b := make([]float32, n), make([]float64, n)
	UniformAt(a, 5, 3)
	UniformAt(b, 5, 3)
	for i := range a {
		if float64(a[i]) != math.Floor(b[i]*(1<<24))/(1<<24) {
			t.Fatalf("uniform %d: %g and %g", i, a[i], b[i])
		}
	}
	NormalAt(a, 5, 3)
	NormalAt(b, 5, 3)
	for i := range a {
		if a[i] != float32(b[i]) {
			t.Fatalf("normal %d: %g and %g", i, a[i], b[i])
		}
	}
}

func TestDrawMoments(t *testing.T) {
	const n = 1 << 18
	u, z := make([]float64, n), make([]float64, n)
	UniformAt(u, 11, 0)
	NormalAt(z, 12, 0)
	var third, fourth float64
	for _, v := range z {
		third += v * v * v / n
		fourth += v * v * v * v / n
	}
	for _, c := range []struct {
		name           string
		got, want, tol float64
	}{
		{"uniform mean", Sum(u) / n, 0.5, 0.003}, {"uniform square", SumSquares(u) / n, 1.0 / 3, 0.003},
		{"uniform lag", Dot(u[1:], u[:n-1]) / n, 0.25, 0.003},
		{"normal mean", Sum(z) / n, 0, 0.01}, {"normal variance", SumSquares(z) / n, 1, 0.015},
		{"normal lag", Dot(z[1:], z[:n-1]) / n, 0, 0.01},
		{"normal third", third, 0, 0.04}, {"normal fourth", fourth, 3, 0.1},
	} {
		if math.Abs(c.got-c.want) > c.tol {
			t.Errorf("%s = %g, want %g", c.name, c.got, c.want)
		}
	}
	if MinOf(u) < 0 || MaxOf(u) >= 1 {
		t.Error("uniform draw outside [0,1)")
	}
}

func BenchmarkDraws(b *testing.B) {
	const n = 4096
	x := make([]float32, n)
	benchRow(b, "Uniform", n, func() { UniformAt(x, 1, 0) })
	benchRow(b, "Normal", n, func() { NormalAt(x, 1, 0) })
}
