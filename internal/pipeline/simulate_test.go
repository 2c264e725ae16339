package pipeline

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPublished compares with totals from the literature, F=1 and B=2.
func TestPublished(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		ranks, micros            int
		wantSpan, wantIdle, rate float64
	}{
		{"1f1b", 4, 8, 33, 9, 3. / 11},
		{"fthenb", 4, 8, 33, 9, 3. / 11},
		{"1f1b", 8, 64, 213, 21, 7. / 71},
		{"zbh1", 4, 8, 27, 3, 1. / 9},
		{"zbv", 4, 8, 51, 0, 3. / 51}, // half stages: twice as many actions, and ranks begin one by one
	} {
		s, err := Generate(tt.name, Config{Ranks: tt.ranks, Micros: tt.micros})
		if err != nil {
			t.Fatal(err)
		}
		line, err := Simulate(s, Uniform(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		if line.Makespan != tt.wantSpan || line.LongestIdle() != tt.wantIdle ||
			math.Abs(line.BubbleFraction()-tt.rate) > 1e-12 {
			t.Errorf("%s p=%d m=%d: makespan %v, idle %v, fraction %v; want %v, %v, %v", tt.name, tt.ranks, tt.micros,
				line.Makespan, line.LongestIdle(), line.BubbleFraction(), tt.wantSpan, tt.wantIdle, tt.rate)
		}
	}
}

// TestTimelineHolds checks every timeline against the rules of the schedule, one by one.
func TestTimelineHolds(t *testing.T) {
	var sim Simulator
	every(t, func(t *testing.T, s *Schedule, c Config) {
		k := Costs{Transfer: []float64{0.3}, Latency: []float64{0.1}, Activation: []float64{2},
			Kept: []float64{0.5}}
		for i := range s.Stages {
			k.Forward = append(k.Forward, 1+float64(i%3))
			k.Input = append(k.Input, 1.5+float64(i%2))
			k.Weight = append(k.Weight, 0.5+float64(i%4))
		}
		k.Micro = func(a Action) float64 { return 1 + 0.25*float64(a.Micro%3) }
		line, err := sim.Run(s, &k)
		if err != nil {
			t.Fatal(err)
		}
		holds(t, s, k, line)
	})
}

func holds(t *testing.T, s *Schedule, k Costs, line *Timeline) {
	t.Helper()
	ends := map[Action]float64{}
	for r, spans := range line.Ranks {
		if len(spans) != len(s.Ranks[r]) {
			t.Fatalf("%s: rank %d ran %d actions of %d", s.Name, r, len(spans), len(s.Ranks[r]))
		}
		for _, x := range spans {
			a := x.Action
			a.Joined = false
			ends[a] = x.End
			if a.Kind == Input {
				ends[act(a.Stage, Backward, a.Micro)] = x.End
			}
		}
	}
	for r, spans := range line.Ranks {
		clock, peak, together := 0.0, 0.0, false
		for _, x := range spans {
			a := x.Action
			start := x.Start
			if !together && start < clock {
				t.Fatalf("%s: rank %d does %s before the action before it ended", s.Name, r, a)
			}
			clock, together = x.End, a.Joined
			wait := func(other Action) {
				at := ends[other]
				if s.Place[other.Stage] != r {
					at += k.Transfer[0] + k.Latency[0]
				}
				if start < at-1e-9 {
					t.Fatalf("%s: %s begins at %v, before %s is there at %v", s.Name, a, start, other, at)
				}
			}
			if a.Kind == Forward && a.Stage > 0 {
				wait(act(a.Stage-1, Forward, a.Micro))
			}
			if (a.Kind == Backward || a.Kind == Input) && a.Stage < s.Stages-1 {
				wait(act(a.Stage+1, Backward, a.Micro))
			}
		}
		for _, m := range line.Memory(r) {
			peak = max(peak, m.Bytes)
		}
		if last := line.Memory(r); math.Abs(peak-line.PeakBytes[r]) > 1e-9 ||
			math.Abs(last[len(last)-1].Bytes) > 1e-9 {
			t.Fatalf("%s: rank %d: peak %v over time, %v in sum; %v bytes are left", s.Name, r, peak,
				line.PeakBytes[r], last[len(last)-1].Bytes)
		}
	}
}

func TestLinkIsShared(t *testing.T) {
	s, err := Parse("0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1")
	if err != nil {
		t.Fatal(err)
	}
	line, err := Simulate(s, Costs{Forward: []float64{1}, Backward: []float64{1}, Transfer: []float64{4},
		Latency: []float64{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{From: 0, To: 1, Action: act(0, Forward, 0), Start: 1, End: 5.5},
		{From: 0, To: 1, Action: act(0, Forward, 1), Start: 5, End: 9.5}, // the link is free at 5, not at 2
	}
	for i, m := range want {
		if line.Messages[i] != m {
			t.Errorf("message %d: got %+v, want %+v", i, line.Messages[i], m)
		}
	}
}

func TestCostsRefused(t *testing.T) {
	s, err := Generate("zbh1", Config{Ranks: 2, Micros: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		c    Costs
		want string
	}{
		{Costs{}, "no time for forward"},
		{Costs{Forward: []float64{1}}, "want Backward, or Input and Weight"},
		{Costs{Forward: []float64{1}, Backward: []float64{2}}, "splits backward passes"},
		{Costs{Forward: []float64{1, 2, 3}, Backward: []float64{2}},
			"3 values: want one, or one for each of 2 stages"},
		{Costs{Forward: []float64{math.NaN()}, Backward: []float64{2}}, "forward of stage 0 is NaN"},
		{Costs{Forward: []float64{1}, Backward: []float64{1, -2}}, "backward of stage 1 is -2"},
	} {
		if _, err := Simulate(s, tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestSimulatorDoesNotAllocate(t *testing.T) {
	s, err := Generate("1f1b", Config{Ranks: 8, Micros: 32})
	if err != nil {
		t.Fatal(err)
	}
	var sim Simulator
	c := Uniform(1, 2)
	c.Transfer = []float64{0.1}
	run := func() {
		if _, err := sim.Run(s, &c); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations a run, want none", n)
	}
}

func BenchmarkSimulate(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			s, err := Generate(name, Config{Ranks: 8, Micros: 32})
			if err != nil {
				b.Fatal(err)
			}
			p, err := Prepare(s)
			if err != nil {
				b.Fatal(err)
			}
			c := Uniform(1, 2)
			c.Transfer, c.Activation = []float64{0.1}, []float64{1}
			var sim Simulator
			b.Run("schedule", func(b *testing.B) {
				for b.Loop() {
					if _, err := sim.Run(s, &c); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("prepared", func(b *testing.B) {
				for b.Loop() {
					if _, err := sim.RunProgram(p, &c); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Generate(name, Config{Ranks: 8, Micros: 32}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMeasured takes a simulated run for a measured one.
func TestMeasured(t *testing.T) {
	every(t, func(t *testing.T, s *Schedule, c Config) {
		want, err := Simulate(s, Uniform(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		got := Measured(s, want.Ranks)
		if got.Makespan != want.Makespan || got.LongestIdle() != want.LongestIdle() ||
			got.BubbleFraction() != want.BubbleFraction() {
			t.Errorf("%s %+v: makespan %v, idle %v; want %v, %v", s.Name, c, got.Makespan, got.LongestIdle(),
				want.Makespan, want.LongestIdle())
		}
	})
}

func TestClone(t *testing.T) {
	var sim Simulator
	c := Uniform(1, 2)
	c.Transfer, c.Activation = []float64{0.5}, []float64{1}
	run := func(name string) *Timeline {
		s, err := Generate(name, Config{Ranks: 3, Micros: 4})
		if err != nil {
			t.Fatal(err)
		}
		line, err := sim.Run(s, &c)
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	kept := run("1f1b").Clone()
	run("dualpipev")
	if d := cmp.Diff(run("1f1b"), kept, cmp.AllowUnexported(Timeline{})); d != "" {
		t.Error(d)
	}
}
