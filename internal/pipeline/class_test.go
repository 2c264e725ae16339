package pipeline

import (
	"strings"
	"testing"
)

// TestLookupSpellings: a name in any letters, and PyTorch's, is the same class; everything else is refused.
func TestLookupSpellings(t *testing.T) {
	for spelled, want := range map[string]string{
		"zbv": "zbv", "ZBV": "zbv", "ZBVZeroBubble": "zbv", "DualPipeV": "dualpipev", "GPipe": "fthenb",
		"gpipe": "fthenb",
		"1F1B":  "1f1b", "Interleaved1F1B": "interleaved", "INTERLEAVED": "interleaved", "ZBH1": "zbh1",
	} {
		c, err := Lookup(spelled)
		if err != nil || c.Name != want {
			t.Errorf("%s: got %v, %v, want %s", spelled, c, err, want)
		}
		s, err := Generate(spelled, Config{Ranks: 2, Micros: 4})
		if err != nil || s.Name != want {
			t.Errorf("%s: generated %v, %v, want %s", spelled, s, err, want)
		}
	}
	for _, name := range []string{"", "zbv ", "z b v", "zbv2"} {
		if _, err := Lookup(name); err == nil || !strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%q: got %v, want an error with the nearest name", name, err)
		}
	}
}

func TestDefault(t *testing.T) {
	for chunks, want := range map[int]string{0: "1f1b", 1: "1f1b", 2: "interleaved", 5: "interleaved"} {
		if c, err := Choose("", chunks); err != nil || c.Name != want {
			t.Errorf("%d chunks: got %v, %v, want %s", chunks, c, err, want)
		}
	}
}

// TestFacts holds what a class says of its schedules to the schedules.
func TestFacts(t *testing.T) {
	every(t, func(t *testing.T, s *Schedule, g Config) {
		c, err := Lookup(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		for stage, rank := range s.Place {
			if got := c.Rank(stage, g.Ranks); got != rank {
				t.Errorf("%s %+v: stage %d is on rank %d, the class says %d", s.Name, g, stage, rank, got)
			}
		}
		pairs := false
		for _, actions := range s.Ranks {
			for _, a := range actions {
				pairs = pairs || a.Joined
			}
		}
		if s.Splits() && !c.Split || pairs && !c.Pairs {
			t.Errorf("%s %+v: splits %v, pairs %v: the class says %v, %v", s.Name, g, s.Splits(), pairs, c.Split,
				c.Pairs)
		}
		if g.Ranks > 1 && g.Micros >= 2*g.Ranks && (c.Split != s.Splits() || c.Pairs != pairs) {
			t.Errorf("%s %+v: splits %v, pairs %v: the class says %v, %v", s.Name, g, s.Splits(), pairs, c.Split,
				c.Pairs)
		}
		checkHeld(t, s, g, c)
		checkWorse(t, s, g, c)
	})
}

// checkHeld compares Held with what Check counts, where micro-batches come in full groups.
func checkHeld(t *testing.T, s *Schedule, g Config, c *Class) {
	t.Helper()
	rep, err := Check(s)
	if err != nil {
		t.Fatal(err)
	}
	for rank, live := range rep.Live {
		got, ok := c.Held(g, rank)
		if want := float64(live) / float64(g.Chunks); ok && g.Micros%g.Ranks == 0 && got != want {
			t.Errorf("%s %+v: rank %d holds %v, the class says %v", s.Name, g, rank, want, got)
		}
	}
}

// checkWorse simulates a class that a search leaves out beside the one that it is left out for.
func checkWorse(t *testing.T, s *Schedule, g Config, c *Class) {
	t.Helper()
	if c.Worse == "" {
		return
	}
	better, err := Generate(c.Worse, g)
	if err != nil {
		t.Fatal(err)
	}
	k := costs(3, 4, 2)
	a, err := Simulate(s, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Simulate(better, k)
	if err != nil {
		t.Fatal(err)
	}
	if b.Makespan > a.Makespan || b.PeakLive[0] > a.PeakLive[0] {
		t.Errorf("%s %+v: %v and %d held, %s %v and %d", s.Name, g, a.Makespan, a.PeakLive[0], c.Worse,
			b.Makespan, b.PeakLive[0])
	}
}
