package quant

import (
	"math/rand/v2"
	"testing"
)

// TestSaliences: where some inputs are much larger than others, scaled columns lose less than half as much as
// plain ones; weighted scales never lose more than unweighted ones by their own measure.
func TestSaliences(t *testing.T) {
	const out, in = 24, 128
	r, w := rand.New(rand.NewPCG(3, 3)), make([]float32, out*in)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	squares := make([]float64, in)
	for i := range squares {
		if squares[i] = 1; i%16 == 5 {
			squares[i] = 400
		}
	}
	c := Config{Bits: 4, Group: 32, Scale: HalfScale}
	s := Saliences(c, [][]float32{w[:out/2*in], w[out/2*in:]}, in, squares)
	plain, scaled := c.scaledError(w, in, ones(in), squares), c.scaledError(w, in, s, squares)
	if scaled > plain/2 {
		t.Errorf("error %v with scales, %v without: want less than half", scaled, plain)
	}
	lost := func(m Matrix) (sum float64) {
		for i, x := range m.Floats() {
			d := float64(x - w[i])
			sum += d * d * squares[i%in]
		}
		return sum
	}
	nearest, weighted := lost(Round(c, w, out, in)), lost(RoundWeighted(c, w, out, in, squares))
	if weighted >= nearest {
		t.Errorf("error %v with the best scales, %v to the nearest: want less", weighted, nearest)
	}
	for _, x := range Saliences(c, [][]float32{w}, in, make([]float64, in)) {
		if x != 1 {
			t.Fatalf("inputs that are never seen: got scale %v, want 1", x)
		}
	}
}
