package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
)

// tinyHost returns a machine with round numbers.
func tinyHost(cores int) []byte {
	cal := plan.Calibration{Level: 1, Host: &plan.Host{
		Cores: cores, Crowd: 1, Start: 1e-7, Rate: 1e9, Stream: 1e10, Meet: 1e-7, Message: 1e-7, Touch: 1e10,
	}}
	return cal.YAML()
}

func tinyPlanner(cores int, list ...galley.Strategy) PlannerConfig {
	return PlannerConfig{
		Calibration: tinyHost(cores), Batch: 8, Seq: 32, Rounds: 1, Strategies: list,
		Model: models.Config{Family: "gpt2", Vocab: 64, Hidden: 16, Layers: 2, Heads: 2, Positions: 32, Tied: true},
	}
}

// TestPlannerMemory says that every strategy takes the memory that was planned, and that the table says so.
func TestPlannerMemory(t *testing.T) {
	c := tinyPlanner(2, galley.Strategy{}, galley.Strategy{DP: 2, Zero: 1}, galley.Strategy{TP: 2},
		galley.Strategy{PP: 2, Micro: 2}, galley.Strategy{CP: 2})
	c.Device = galley.CPU(galley.Config{Threads: 1})
	defer c.Device.Close()
	var out bytes.Buffer
	g, err := Planner(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	if g.Exact() != 5 || !strings.HasSuffix(out.String(), "memory exact 5 of 5\n") {
		t.Errorf("memory: got %d exact, want 5:\n%s", g.Exact(), &out)
	}
	g.List[1].Allocated[0]++
	if g.Exact() != 4 || g.Holds() {
		t.Errorf("one byte more on one device: got %d exact, want 4", g.Exact())
	}
}

// TestPlannerForecast says how predictions move: with recomputation and with more micro-batches there is more
// to do; where devices have a core each they share the work, a pipeline of one micro-batch does not.
func TestPlannerForecast(t *testing.T) {
	predict := func(cores int, s galley.Strategy) *Guess {
		t.Helper()
		c := tinyPlanner(cores)
		c.Device = galley.CPU(galley.Config{Threads: 1})
		defer c.Device.Close()
		x, err := c.guess(s)
		if err != nil {
			t.Fatal(err)
		}
		if x.Predicted*float64(cores) < x.Work*0.999 || x.Predicted <= 0 {
			t.Errorf("%s on %d cores: %g s of work in %g s", s, cores, x.Work, x.Predicted)
		}
		return x
	}
	one := predict(2, galley.Strategy{})
	for _, more := range []galley.Strategy{{Recompute: "full"}, {Micro: 4}} {
		if got := predict(2, more); got.Predicted <= one.Predicted {
			t.Errorf("%s: got %g s, want more than the %g s of one device", more, got.Predicted, one.Predicted)
		}
	}
	if got := predict(2, galley.Strategy{DP: 2}); got.Predicted > 0.9*one.Predicted {
		t.Errorf("dp2 on two cores: got %g s, want clearly less than the %g s of one device", got.Predicted,
			one.Predicted)
	}
	if got := predict(1, galley.Strategy{DP: 2}); got.Predicted <= one.Predicted {
		t.Errorf("dp2 on one core: got %g s, want more than the %g s of one device", got.Predicted, one.Predicted)
	}
	pipe := predict(2, galley.Strategy{PP: 2, Micro: 1})
	if full := predict(2, galley.Strategy{PP: 2,
		Micro: 4}); pipe.Predicted/pipe.Work <= full.Predicted/full.Work {
		t.Errorf("a pipeline of one micro-batch waits: got %g s for %g s of work, with four %g for %g",
			pipe.Predicted, pipe.Work, full.Predicted, full.Work)
	}
}

// TestTauOf says what rank correlation is.
func TestTauOf(t *testing.T) {
	for _, c := range []struct {
		predicted, measured []float64
		want                float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3}, []float64{1, 3, 2}, 1.0 / 3},
	} {
		g := &Guesses{}
		for i := range c.predicted {
			g.List = append(g.List, &Guess{Predicted: c.predicted[i], Measured: c.measured[i]})
		}
		if got := g.Tau(); got != c.want {
			t.Errorf("%v against %v: got %g, want %g", c.predicted, c.measured, got, c.want)
		}
	}
}

// TestPlannerRounds says when enough rounds are measured: not before the machine agrees with itself.
func TestPlannerRounds(t *testing.T) {
	g := &Guesses{List: []*Guess{{walls: []float64{1, 1, 1, 1, 1, 1}}, {walls: []float64{2, 2, 2, 3, 3, 3}},
		{walls: []float64{3, 3, 3, 2, 2, 2}}}}
	if got := g.SelfTau(); got > 0.34 || got < 0.33 {
		t.Errorf("two of three pairs in one order: tau %v, want 1/3", got)
	}
	if g.Rounds() != 2 {
		t.Errorf("got %d rounds, want 2", g.Rounds())
	}
	c := tinyPlanner(1, galley.Strategy{}, galley.Strategy{DP: 2})
	c.Rounds = 0
	c.Device = galley.CPU(galley.Config{Threads: 1})
	defer c.Device.Close()
	g, err := Planner(&bytes.Buffer{}, c)
	if err != nil {
		t.Fatal(err)
	}
	if n := g.Rounds(); n < leastRounds || n > mostRounds || n < mostRounds && g.SelfTau() < wantSelfTau {
		t.Errorf("stopped after %d rounds, tau %v", n, g.SelfTau())
	}
}
