package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
)

// sleeper takes steps of a known length.
type sleeper time.Duration

func (s sleeper) Step() error  { time.Sleep(time.Duration(s)); return nil }
func (s sleeper) Close() error { return nil }

// sleepers are candidates whose steps take so many milliseconds; 0 cannot run. The model holds the later ones
// for slower.
func sleepers(ms ...int) Config {
	var c Config
	took := map[string]int{}
	for i, n := range ms {
		s := galley.Strategy{DP: i + 1}
		took[s.Line()] = n
		c.Candidates = append(c.Candidates, forecast.Candidate{Strategy: s,
			Estimate: plan.Estimate{Step: 1e-3 * float64(i+1)}})
	}
	c.Budget = 5 * time.Second
	c.Open = func(s galley.Strategy) (Stepper, error) {
		if n := took[s.Line()]; n > 0 {
			return sleeper(time.Duration(n) * time.Millisecond), nil
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
	c.Budget = 300 * time.Millisecond
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	// A turn takes 200 ms here; a second one would end too late.
	if !r.Early || len(r.Measured()) != 1 || !strings.Contains(r.String(), "time ran out") {
		t.Errorf("early %v, %d measured:\n%s", r.Early, len(r.Measured()), r)
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
