package pipeline

import (
	"strings"
	"testing"
)

// every calls f with each schedule of small sizes.
func every(t *testing.T, f func(t *testing.T, s *Schedule, c Config)) {
	t.Helper()
	most := 7
	if testing.Short() {
		most = 4
	}
	sweep(t, most, func(ranks int) int { return 2*ranks + 3 }, f)
}

// sweep calls f with each schedule of up to so many ranks and, for each number of them, micro-batches.
func sweep(t *testing.T, most int, micros func(ranks int) int, f func(t *testing.T, s *Schedule, c Config)) {
	t.Helper()
	for _, g := range classes {
		chunks := []int{g.Chunks}
		if g.Chunks == 0 {
			chunks = []int{1, 2, 3, 4}
		}
		for ranks := 1; ranks <= most; ranks++ {
			for m := 1; m <= micros(ranks); m++ {
				for _, v := range chunks {
					c := Config{Ranks: ranks, Micros: m, Chunks: v}
					s, err := Generate(g.Name, c)
					if err != nil {
						t.Fatalf("%s %+v: %v", g.Name, c, err)
					}
					f(t, s, c)
				}
			}
		}
	}
}

func TestGeneratedPassCheckAndLower(t *testing.T) {
	var sim Simulator
	cost := Costs{Forward: []float64{1}, Input: []float64{1.25}, Weight: []float64{0.75},
		Transfer: []float64{0.25}, Latency: []float64{0.125}}
	every(t, func(t *testing.T, s *Schedule, c Config) {
		rep, err := Check(s)
		if err != nil {
			t.Fatalf("%s %+v: %v\n%s", s.Name, c, err, s)
		}
		low, err := Lower(s)
		if err != nil {
			t.Fatalf("%s %+v: %v\n%s", s.Name, c, err, s)
		}
		again, err := Check(low)
		if err != nil {
			t.Fatalf("%s %+v: %v\n%s", s.Name, c, err, low)
		}
		for r := range rep.Live {
			if rep.Live[r] != again.Live[r] {
				t.Errorf("%s %+v: rank %d holds %d, lowered %d", s.Name, c, r, rep.Live[r], again.Live[r])
			}
		}
		a, err := sim.Run(s, &cost)
		if err != nil {
			t.Fatal(err)
		}
		span, live := a.Makespan, a.PeakLive[0]
		b, err := sim.Run(low, &cost)
		if err != nil {
			t.Fatalf("%s %+v: %v\n%s", s.Name, c, err, low)
		}
		if span != b.Makespan || live != rep.Live[0] {
			t.Errorf("%s %+v: makespan %v, lowered %v; live %d, want %d", s.Name, c, span, b.Makespan, live,
				rep.Live[0])
		}
	})
}

// TestLive compares the micro-batches that ranks hold with what the papers say.
func TestLive(t *testing.T) {
	every(t, func(t *testing.T, s *Schedule, c Config) {
		rep, err := Check(s)
		if err != nil {
			t.Fatal(err)
		}
		p, m := c.Ranks, c.Micros
		for r, got := range rep.Live {
			want, exact := 0, true
			switch {
			case s.Name == "fthenb":
				want = m
			case s.Name == "1f1b" || s.Name == "interleaved" && c.Chunks == 1:
				want = min(m, p-r)
			case s.Name == "interleaved":
				v := s.Chunks()
				want = min(m*v, 2*(p-r-1)+(v-1)*groupSize(Config{Ranks: p, Micros: m}, 0)+1)
			case s.Name == "zbh1":
				want = min(m, p)
			case s.Name == "zbv":
				want, exact = 2*p, m >= 2*p
			case s.Name == "dualpipev":
				want, exact = 2*p+1, m >= 2*p && r == p-1
			default: // TestFacts holds other schedules to the facts of their entries
				return
			}
			if got > want || exact && got != want {
				t.Errorf("%s %+v: rank %d holds %d micro-batches, want %d", s.Name, c, r, got, want)
			}
		}
	})
}

func TestGenerateRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Config
		want string
	}{
		{"1fb1", Config{}, "did you mean 1f1b?"},
		{"Interleave", Config{}, "did you mean interleaved?"},
		{"1f1b", Config{Ranks: 4, Micros: 4, Chunks: 2}, "interleaved takes any"},
		{"zbv", Config{Ranks: 4, Micros: 4, Chunks: 3}, "a V has 2"},
		{"fthenb", Config{Ranks: -1}, "negative"},
		{"fthenb", Config{Ranks: 1 << 12, Micros: 1 << 16}, "at most"},
	} {
		_, err := Generate(tt.name, tt.c)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %+v: got %v, want %q", tt.name, tt.c, err, tt.want)
		}
	}
}
