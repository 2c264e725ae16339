package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"pgregory.net/rapid"
)

func count(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	return ids
}

func newSampler(t testing.TB, ids []int32, config SamplerConfig) *Sampler {
	t.Helper()
	s, err := NewSampler(ids, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSequential(t *testing.T) {
	s := newSampler(t, count(10), SamplerConfig{Batch: 2, Seq: 3, Order: Sequential})
	if got := s.Windows(); got != 3 {
		t.Errorf("windows: got %d, want 3", got)
	}
	for step, want := range []string{
		"i32[2,4]{0 1 2 3 3 4 5 6}",
		"i32[2,4]{6 7 8 9 0 1 2 3}", // into the next epoch
	} {
		if got := s.Batch(step).String(); got != want {
			t.Errorf("step %d: got %s, want %s", step, got, want)
		}
	}
}

// TestEpochs checks that every epoch deals each window once, and not in the order of the one before.
func TestEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := SamplerConfig{
			Batch: rapid.IntRange(1, 5).Draw(t, "batch"),
			Seq:   rapid.IntRange(1, 4).Draw(t, "seq"),
			Seed:  rapid.Uint64().Draw(t, "seed"),
		}
		n := rapid.IntRange(1, 70).Draw(t, "windows")
		s, err := NewSampler(count(n*config.Seq+1), config)
		if err != nil {
			t.Fatal(err)
		}
		first := rapid.IntRange(0, 1000).Draw(t, "epoch") * n
		var dealt []int
		for i := first; i < first+n; i++ {
			row := array.Data[int32](s.Batch(i/config.Batch).Rows(i%config.Batch, i%config.Batch+1))
			for j, id := range row {
				if id != row[0]+int32(j) {
					t.Fatalf("window %v is not a stretch of the text", row)
				}
			}
			dealt = append(dealt, int(row[0])/config.Seq)
		}
		slices.Sort(dealt)
		for i, w := range dealt {
			if i != w {
				t.Fatalf("epoch deals %v", dealt)
			}
		}
	})
}

func TestBatchDependsOnSeedAndStep(t *testing.T) {
	ids := count(10_001)
	batch := func(seed uint64, step int) string {
		s := newSampler(t, ids, SamplerConfig{Batch: 4, Seq: 10, Seed: seed})
		return s.Batch(step).String()
	}
	if a, b := batch(1, 77), batch(1, 77); a != b {
		t.Errorf("same seed and step: %s and %s", a, b)
	}
	if a, b := batch(1, 77), batch(2, 77); a == b {
		t.Errorf("two seeds: both %s", a)
	}
	if a, b := batch(1, 77), batch(1, 77+250); a == b {
		t.Errorf("two epochs: both %s", a)
	}
}

// TestPermutationIsUniform counts where the first of five goes, over many keys.
func TestPermutationIsUniform(t *testing.T) {
	const n, trials = 5, 20_000
	var counts [n]int
	for epoch := range uint64(trials) {
		counts[newPermutation(n, 42, epoch).at(0)]++
	}
	for i, c := range counts {
		// Six standard deviations.
		if d := math.Abs(float64(c) - trials/n); d > 6*math.Sqrt(trials/n) {
			t.Errorf("%d: got %d times, want about %d", i, c, trials/n)
		}
	}
}

func TestSamplerErrors(t *testing.T) {
	for _, test := range []struct {
		tokens int
		config SamplerConfig
		want   string
	}{
		{10, SamplerConfig{Seq: 1}, "sampler: batch: got 0"},
		{10, SamplerConfig{Batch: 1}, "sampler: seq: got 0"},
		{10, SamplerConfig{Batch: 1, Seq: -3}, "sampler: seq: got -3"},
		{10, SamplerConfig{Batch: 1, Seq: 1, Order: 7}, "sampler: order: got 7"},
		{10, SamplerConfig{Batch: 1, Seq: 10}, "shorter than a window: got 10 tokens, want at least 10+1"},
		{10, SamplerConfig{Batch: 1, Seq: math.MaxInt}, "shorter than a window"},
		{0, SamplerConfig{Batch: 1, Seq: 1}, "shorter than a window: got 0 tokens"},
		{10, SamplerConfig{Batch: math.MaxInt, Seq: 1}, "too large"},
	} {
		_, err := NewSampler(count(test.tokens), test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q in it", test.config, err, test.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		fraction float64
		want     int
	}{{0, 0}, {0.5, 5}, {0.99, 9}, {1, 10}} {
		train, held, err := Split(count(10), test.fraction)
		if err != nil || len(train) != test.want || !slices.Equal(append(train, held...), count(10)) {
			t.Errorf("%v: got %v %v %v, want %d to train on", test.fraction, train, held, err, test.want)
		}
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, _, err := Split(count(10), bad); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
}

func TestMobyDick(t *testing.T) {
	text := MobyDick()
	if !strings.HasPrefix(text, "CHAPTER 1. Loomings.\n\nCall me Ishmael.") ||
		!strings.HasSuffix(text, ".\n\n") {
		t.Errorf("got %q … %q", text[:40], text[len(text)-40:])
	}
	if n := len(text); n < 250_000 || n > 260_000 {
		t.Errorf("got %d bytes", n)
	}
}

func ExampleSampler() {
	var tok Bytes
	train, held, err := Split(tok.Encode(MobyDick()), 0.9)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := NewSampler(train, SamplerConfig{Batch: 2, Seq: 24, Order: Sequential})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := s.Batch(1)
	fmt.Println(batch.DType(), batch.Shape(), s.Windows(), len(held))
	for i := range 2 {
		fmt.Printf("%q\n", tok.Decode(array.Data[int32](batch.Rows(i, i+1))))
	}
	// Output:
	// i32 [2,25] 9595 25589
	// "s ago—never mind how lo"
	// "ong precisely—having li"
}
