package quant_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/internal/quant"
)

func normals(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// TestRound: no element is further from its own than half a scale, but the one that the range has no
// counterpart for, and a group's scale does not depend on other groups.
func TestRound(t *testing.T) {
	const out, in = 3, 150
	w := normals(1, out*in)
	for _, c := range []quant.Config{{Bits: 8, Group: 32}, {Bits: 4, Group: 64},
		{Bits: 4, Group: 32, Signed: true},
		{Bits: 8, Group: 128, Scale: quant.BF16Scale}} {
		m := quant.Round(c, w, out, in)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		for i, got := range m.Floats() {
			s := math.Abs(float64(m.Scales[i/in*m.Groups()+i%in/m.Group]))
			limit := s * 0.52
			if c.Signed {
				limit = s * 1.01 // the other end of the range is one nearer
			}
			if d := math.Abs(float64(got - w[i])); d > limit || s == 0 {
				t.Fatalf("%+v: element %d: got %v, want %v within %v", c, i, got, w[i], limit)
			}
		}
	}
}

// TestRoundExtremes: zeros stay, and what is too small for a scale becomes 0.
func TestRoundExtremes(t *testing.T) {
	w := make([]float32, 64)
	w[40] = 1e-30
	for i, x := range quant.Round(quant.Config{Bits: 4, Group: 32}, w, 1, 64).Floats() {
		if x != 0 {
			t.Errorf("element %d: got %v, want 0", i, x)
		}
	}
}
