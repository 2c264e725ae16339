package pipeline

import (
	"math"
	"strings"
	"testing"
)

// costs of one chunk that the closed forms are compared under.
func costs(f, i, w float64) Costs {
	return Costs{Forward: []float64{f}, Input: []float64{i}, Weight: []float64{w}}
}

func paired(c Costs, pair float64) Costs {
	c.Pair = []float64{pair}
	return c
}

// TestBubbleEqualsSimulation compares wherever there is a closed form.
func TestBubbleEqualsSimulation(t *testing.T) {
	most := 9
	if testing.Short() {
		most = 4
	}
	ratios := []Costs{
		costs(1, 1, 1), costs(8, 8, 8), costs(10, 12, 8), costs(12, 10, 8), costs(8, 12, 10), costs(3, 1,
			1), costs(10, 14, 6), costs(5, 9, 7),
		costs(9, 5, 7), costs(2, 1, 3), costs(1, 2, 3), paired(costs(4, 4, 4), 8), paired(costs(4, 4, 4),
			10), paired(costs(4, 4, 4), 16),
	}
	var sim Simulator
	compared := map[string]int{}
	sweep(t, most, func(ranks int) int { return 3*ranks + 2 }, func(t *testing.T, s *Schedule, c Config) {
		for _, k := range ratios {
			want, err := Bubble(s.Name, c, k)
			if err != nil {
				continue
			}
			line, err := sim.Run(s, &k)
			if err != nil {
				t.Fatalf("%s %+v: %v", s.Name, c, err)
			}
			compared[s.Name]++
			if got := line.LongestIdle(); math.Abs(got-want) > 1e-9*(1+want) {
				t.Errorf("%s %+v %+v: simulated bubble %v, formula %v", s.Name, c, k, got, want)
			}
		}
	})
	for _, name := range Names() {
		if compared[name] < 20 {
			t.Errorf("%s was compared %d times", name, compared[name])
		}
	}
	t.Log(compared)
}

// TestBubbleRefuses checks that no formula is given for what it does not hold for.
func TestBubbleRefuses(t *testing.T) {
	slow, varied := costs(1, 1, 1), costs(1, 1, 1)
	slow.Latency, varied.Forward = []float64{1}, []float64{1, 2}
	for _, tt := range []struct {
		name string
		c    Config
		k    Costs
		want string
	}{
		{"1f1b", Config{Ranks: 2, Micros: 2}, slow, "messages take time"},
		{"1f1b", Config{Ranks: 2, Micros: 2}, varied, "stages differ"},
		{"1f1b", Config{Ranks: 2, Micros: 2}, Costs{Forward: []float64{1}, Backward: []float64{1},
			Micro: func(Action) float64 { return 1 }}, "micro-batches differ"},
		{"zbh1", Config{Ranks: 2, Micros: 2}, costs(1, 1, 2), "weight gradients take longer"},
		{"zbv", Config{Ranks: 2, Micros: 8}, costs(1, 2, 1), "equally long"},
		{"zbv", Config{Ranks: 2, Micros: 3}, costs(1, 1, 1), "3 micro-batches are fewer"},
		{"dualpipev", Config{Ranks: 2, Micros: 8}, paired(costs(1, 1, 1), 1), "less than two forwards"},
		{"zbw", Config{}, costs(1, 1, 1), "did you mean"},
		{"1f1b", Config{}, Costs{}, "no time for forward"},
	} {
		if _, err := Bubble(tt.name, tt.c, tt.k); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
