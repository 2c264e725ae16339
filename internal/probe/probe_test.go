package probe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
)

// sleeper takes steps of a known length, by a clock of its own.
type sleeper struct {
	clock *time.Time
	took  time.Duration
}

func (s sleeper) Step() error  { *s.clock = s.clock.Add(s.took); return nil }
func (s sleeper) Close() error { return nil }

// sleepers returns candidates whose steps take so many milliseconds; 0 cannot run. The model holds the later
// ones for slower.
func sleepers(ms ...int) Config {
	var c Config
	took := map[string]int{}
	for i, n := range ms {
		s := galley.Strategy{DP: i + 1}
		took[s.Line()] = n
		c.Candidates = append(c.Candidates, forecast.Candidate{Strategy: s,
			Estimate: plan.Estimate{Step: 1e-3 * float64(i+1)}})
	}
	at := time.Unix(0, 0)
	c.Budget, c.clock = 5*time.Second, func() time.Time { return at }
	c.Open = func(s galley.Strategy) (Stepper, error) {
		if n := took[s.Line()]; n > 0 {
			return sleeper{&at, time.Duration(n) * time.Millisecond}, nil
		}
		return nil, errors.New("no memory")
	}
	return c
}

// TestProbeChooses says that the fastest is chosen, whatever the model held of it, and that what cannot run
// or is not worth another turn is said.
func TestProbeChooses(t *testing.T) {
	r, err := Run(sleepers(30, 0, 12, 60))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Best().Strategy.DP; got != 3 {
		t.Errorf("chose candidate %d: %s", got, r)
	}
	if n, m := len(r.List[3].Steps), len(r.List[2].Steps); n > m || n < timedSteps {
		t.Errorf("%d steps of the slowest, %d of the fastest", n, m)
	}
	for _, want := range []string{"cannot run: no memory", "probing took", "chose"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("no %q in\n%s", want, r)
		}
	}
	if len(r.Measured()) != 3 {
		t.Errorf("%d measured, want 3", len(r.Measured()))
	}
}

// TestProbeBudget says that probing ends when its time is up, and says so.
func TestProbeBudget(t *testing.T) {
	c := sleepers(50, 50, 50, 50, 50, 50)
	c.Budget = 150 * time.Millisecond
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	// A first turn takes 100 ms here; a second one would end too late.
	if !r.Early || len(r.Measured()) != 1 || !strings.Contains(r.String(), "time ran out") {
		t.Errorf("early %v, %d measured:\n%s", r.Early, len(r.Measured()), r)
	}
}

// noisy is a machine that others use: a third of all turns are two to four times as slow, and every step is
// up to a tenth longer. Its clock moves by what steps take.
type noisy struct {
	now  time.Time
	rand *rand.Rand
}

type noisyStep struct {
	m    *noisy
	took time.Duration
	busy float64
}

func (s noisyStep) Step() error {
	s.m.now = s.m.now.Add(time.Duration(float64(s.took) * s.busy * (1 + 0.1*s.m.rand.Float64())))
	return nil
}
func (s noisyStep) Close() error { return nil }

// TestProbeNoise says that on such a machine the choice is on average within 0.4% of the best of all
// candidates, and never takes longer than it may.
func TestProbeNoise(t *testing.T) {
	const runs = 200
	lost, worst := 0.0, 0.0
	for seed := range uint64(runs) {
		m := &noisy{now: time.Unix(0, 0), rand: rand.New(rand.NewPCG(seed, 1))}
		c := sleepers(1, 1, 1, 1, 1, 1, 1, 1)
		c.Budget = 60 * time.Second
		took, best := map[string]float64{}, math.Inf(1)
		for _, x := range c.Candidates {
			took[x.Strategy.Line()] = 0.1 * (1 + m.rand.Float64())
			best = min(best, took[x.Strategy.Line()])
		}
		c.clock = func() time.Time { return m.now }
		c.Open = func(s galley.Strategy) (Stepper, error) {
			busy := 1.0
			if m.rand.IntN(3) == 0 {
				busy = 2 + 2*m.rand.Float64()
			}
			return noisyStep{m, time.Duration(took[s.Line()] * 1e9), busy}, nil
		}
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Took > c.Budget+time.Second {
			t.Errorf("seed %d: took %v of %v", seed, r.Took, c.Budget)
		}
		x := took[r.Best().Strategy.Line()]/best - 1
		lost, worst = lost+x/runs, max(worst, x)
	}
	if lost > 0.004 { // half a percent where those that are out have no further turn
		t.Errorf("%.1f%% lost on average, %.1f%% at worst", 100*lost, 100*worst)
	}
	t.Logf("%.2f%% lost on average, %.1f%% at worst", 100*lost, 100*worst)
}

// TestProbeQuiet says that on a machine whose steps differ by a tenth at most, time goes to those candidates
// that are close.
func TestProbeQuiet(t *testing.T) {
	m := &noisy{now: time.Unix(0, 0), rand: rand.New(rand.NewPCG(1, 1))}
	list := []int{265, 318, 270, 256, 395, 275}
	c := sleepers(list...)
	took := map[string]int{}
	for i, x := range c.Candidates {
		took[x.Strategy.Line()] = list[i]
	}
	c.Budget, c.Room, c.clock = 30*time.Second, 1, func() time.Time { return m.now }
	c.Open = func(s galley.Strategy) (Stepper, error) {
		return noisyStep{m, time.Duration(took[s.Line()]) * time.Millisecond, 1}, nil
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if n, far := len(r.List[3].Steps), len(r.List[4].Steps); r.Best() != r.List[3] || n < 16 || far > 6 {
		t.Errorf("%d steps of the fastest, %d of the slowest:\n%s", n, far, r)
	}
}

func TestProbeNothingRuns(t *testing.T) {
	if _, err := Run(sleepers(0, 0)); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("got %v", err)
	}
	if _, err := Run(Config{}); err == nil {
		t.Error("no candidates: want an error")
	}
}

func ExampleReport_String() {
	r := &Report{List: []*Seen{{Candidate: forecast.Candidate{Strategy: galley.Strategy{DP: 2},
		Estimate: plan.Estimate{Step: 0.2}}, Steps: []float64{0.25}}}, Took: time.Second, Budget: time.Minute}
	fmt.Println(r)
	// Output:
	//   dp2                                            200.0 ms predicted,   250.0 ms measured in 1 steps (+0.0%)
	// probing took 1.00 s of at most 60.0 s; chose dp2
}

// counted is a stepper that is counted while it is open.
type counted struct {
	sleeper
	open *int
}

func (s counted) Close() error { *s.open--; return nil }

// TestProbeRoom says that candidates stay between their turns while they fit, and that none stays in the end.
func TestProbeRoom(t *testing.T) {
	for _, test := range []struct {
		room        float64
		opens, most int
	}{{0, 18, 1}, {100, 10, 2}, {1000, 2, 2}} {
		c := sleepers(10, 10)
		c.Rounds = 9
		for i := range c.Candidates {
			c.Candidates[i].Estimate.Memory.Weights = 100 / float64(i+1) // of each device
		}
		opens, open, most := 0, 0, 0
		make := c.Open
		c.Room, c.Open = test.room, func(s galley.Strategy) (Stepper, error) {
			x, err := make(s)
			opens, open = opens+1, open+1
			most = max(most, open)
			return counted{x.(sleeper), &open}, err
		}
		if _, err := Run(c); err != nil {
			t.Fatal(err)
		}
		if opens != test.opens || most != test.most || open != 0 {
			t.Errorf(
				"room for %v bytes: %d opened, %d at a time, %d left: want %d, %d, 0",
				test.room,
				opens,
				most,
				open,
				test.opens,
				test.most,
			)
		}
	}
}
