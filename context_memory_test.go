package galley_test

import (
	"flag"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
)

var long = flag.Bool("long", false,
	"also run tests that take a minute: go test . -run LongSequence -args -long")

// TestLongSequences: four devices that share a sequence of 32k tokens need a quarter of the memory each,
// within a tenth.
func TestLongSequences(t *testing.T) {
	t.Parallel()
	c := models.Config{Family: "llama", Vocab: 256, Hidden: 64, Intermediate: 176, Layers: 2, Heads: 4,
		KVHeads: 4, InitStd: 0.02}
	batch := array.Shape{1, 32<<10 + 1}
	peak := func(s galley.Strategy) float64 {
		x, err := tryTrial(t, c, array.F32, &s, batch)
		if err != nil {
			t.Fatal(err)
		}
		return float64(x.planned(t).Peak().Peak())
	}
	for _, s := range []galley.Strategy{{CP: 4}, {CP: 4, Context: "ulysses"}, {CP: 4, Recompute: "full"},
		{CP: 4, Recompute: "selective"}, {CP: 4, Zero: 3}} {
		one, part := peak(galley.Strategy{Recompute: s.Recompute}), peak(s)
		if ratio := part / one; math.Abs(4*ratio-1) > 0.1 {
			t.Errorf("%v: one device needs %.1f MB, each of four %.1f MB: %.3f of it", s, one/1e6, part/1e6, ratio)
		}
	}
}

// TestLongSequenceTrains takes steps on a long sequence that four devices share: the losses of one device.
func TestLongSequenceTrains(t *testing.T) {
	t.Parallel()
	c := models.Config{Family: "llama", Vocab: 64, Hidden: 8, Intermediate: 16, Layers: 1, Heads: 4, KVHeads: 4,
		InitStd: 0.1}
	seq, steps := 4<<10, 2
	if testing.Short() {
		seq = 1 << 10
	}
	if *long {
		seq = 32 << 10
	}
	batch := array.Shape{1, seq + 1}
	var want []float64
	for _, s := range []*galley.Strategy{nil, {CP: 4}, {CP: 4, Context: "ulysses"}} {
		x, err := tryTrial(t, c, array.F32, s, batch)
		if err != nil {
			t.Fatal(err)
		}
		got := x.train(t, steps)
		if s == nil {
			want = got
		}
		sameCurve(t, got, want, 2e-5)
	}
}
