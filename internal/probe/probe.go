package probe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/job"
)

// Config is what is measured, and for how long.
type Config struct {
	// Candidates are the strategies, the best by the cost model first.
	Candidates []forecast.Candidate
	// Job is the processes that measure together; nil is this one alone.
	Job *job.Job
	// Open makes what takes the steps of a strategy.
	Open func(s galley.Strategy) (Stepper, error)
	// Budget is how long all of it may take. The first candidate's first turn is always taken.
	Budget time.Duration
	// Rounds is how many turns a candidate has at most; 0 is 8.
	Rounds int
	// All gives every candidate all turns, also those that are clearly slower.
	All bool
	// Tell, where set, is told what is measured.
	Tell func(text string)
	// clock is the time; nil is the machine's.
	clock func() time.Time
}

func (c *Config) now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return c.clock()
}

// since is the time from then to now.
func (c *Config) since(then time.Time) time.Duration { return c.now().Sub(then) }

// Stepper takes steps of a strategy.
type Stepper interface {
	Step() error
	Close() error
}

// Seen is a candidate with what its steps took.
type Seen struct {
	forecast.Candidate
	// Steps are seconds, those of all turns; Failed is why it could not run.
	Steps  []float64
	Failed error
	// turn is how long its last turn took with everything, out says that it is clearly slower.
	turn time.Duration
	out  bool
}

// Seconds is what an eighth of its steps took at most; 0 where there is none. Whatever else the machine does
// makes steps longer and never shorter, so the shorter ones tell more.
func (s *Seen) Seconds() float64 {
	if len(s.Steps) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.Steps))[(len(s.Steps)-1)/8]
}

// Report is what was measured.
type Report struct {
	// List has the candidates in the order given.
	List []*Seen
	// Took is the time of all of it, Budget what it had; Early says that time ran out.
	Took, Budget time.Duration
	Early        bool
}

// Each turn takes a step that plans and warms up, then timed ones.
const timedSteps = 3

// Run measures the candidates.
func Run(c Config) (*Report, error) {
	if len(c.Candidates) == 0 {
		return nil, errors.New("probe: no candidates")
	}
	r := &Report{Budget: c.Budget}
	for _, x := range c.Candidates {
		r.List = append(r.List, &Seen{Candidate: x})
	}
	start := c.now()
	rounds := c.Rounds
	if rounds == 0 {
		rounds = 8
	}
	for round := range rounds {
		done, err := c.round(r, round, start)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	r.Took = c.since(start)
	if r.Best() == nil {
		return r, fmt.Errorf("probe: no candidate runs: %w", r.List[0].Failed)
	}
	return r, nil
}

// round gives every candidate that is not out its turn; done says that no further round is needed or there is
// no time for one.
func (c *Config) round(r *Report, round int, start time.Time) (done bool, err error) {
	for i, x := range r.List {
		if x.out || x.Failed != nil {
			continue
		}
		left := c.Budget - c.since(start)
		yes, err := c.agree(i == 0 && round == 0 || left > r.expected(x))
		if err != nil {
			return false, err
		}
		if !yes {
			r.Early = true
			return true, nil
		}
		if c.Tell != nil {
			c.Tell(fmt.Sprintf("probing %s", x.Strategy))
		}
		if err := c.turn(r, x, start); err != nil {
			return false, err
		}
	}
	if !c.All {
		r.leaveOut(round)
	}
	return r.Early || r.settled(), nil
}

// expected is how long a turn should take: as its last one, or as the others' first, by what is predicted.
func (r *Report) expected(x *Seen) time.Duration {
	if x.turn > 0 {
		return x.turn
	}
	longest := time.Duration(0)
	for _, y := range r.List {
		longest = max(longest, y.turn)
	}
	return longest
}

// agree is what the first process says.
func (c *Config) agree(yes bool) (bool, error) {
	if c.Job == nil {
		return yes, nil
	}
	told, err := c.Job.Tell(fmt.Sprint(yes))
	return told == "true", err
}

// turn takes some steps of a candidate, with nothing else of the probe in memory. What cannot run is no
// candidate; in a job, an error of one process is all's.
func (c *Config) turn(r *Report, x *Seen, start time.Time) error {
	begin := c.now()
	defer func() { x.turn = c.since(begin) }()
	t, err := c.Open(x.Strategy)
	if err != nil {
		x.Failed = err
		return nil
	}
	defer t.Close()
	for i := range timedSteps + 1 {
		if i > 1 { // a step is always taken, further ones while there is time
			yes, err := c.agree(c.since(start) < c.Budget)
			if err != nil || !yes {
				r.Early = true
				return err
			}
		}
		at := c.now()
		if err := t.Step(); err != nil {
			if c.Job != nil {
				return err
			}
			x.Failed = err
			return nil
		}
		took, err := c.shared(c.since(at).Seconds())
		if err != nil {
			return err
		}
		if i > 0 {
			x.Steps = append(x.Steps, took)
		}
	}
	return nil
}

// shared is the first process's number, so that all come to the same choice.
func (c *Config) shared(seconds float64) (float64, error) {
	if c.Job == nil {
		return seconds, nil
	}
	told, err := c.Job.Tell(strconv.FormatFloat(seconds, 'g', -1, 64))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(told, 64)
}

// slower is by how much a candidate is out after each round: the more steps say so, the less it takes.
var slower = []float64{5, 3, 1.5, 1.15, 1.08, 1.05, 1.04}

// leaveOut says which candidates have no turn in the next round: those that are clearly slower, by all that is
// known now. One that was out comes back where others turn out to be no faster.
func (r *Report) leaveOut(round int) {
	best := r.Best()
	if best == nil {
		return
	}
	limit := slower[min(round, len(slower)-1)]
	for _, x := range r.List {
		x.out = x.Seconds() > limit*best.Seconds()
	}
}

// settled says whether one is left.
func (r *Report) settled() bool {
	left := 0
	for _, x := range r.List {
		if !x.out && x.Failed == nil {
			left++
		}
	}
	return left <= 1
}

// Best is the candidate whose steps took the least; nil where none ran.
func (r *Report) Best() *Seen {
	var best *Seen
	for _, x := range r.List {
		if x.Seconds() > 0 && (best == nil || x.Seconds() < best.Seconds()) {
			best = x
		}
	}
	return best
}

// Measured are the strategies that ran, for a calibration.
func (r *Report) Measured() (list []forecast.Measured) {
	for _, x := range r.List {
		if x.Seconds() > 0 {
			list = append(list, forecast.Measured{Strategy: x.Strategy, Seconds: x.Seconds()})
		}
	}
	return list
}

// String is a table of what was measured, and what comes of it.
func (r *Report) String() string {
	var b strings.Builder
	best := r.Best()
	for _, x := range r.List {
		switch {
		case x.Failed != nil:
			fmt.Fprintf(&b, "  %-44s cannot run: %v\n", x.Strategy, x.Failed)
		case x.Seconds() == 0:
			fmt.Fprintf(&b, "  %-44s %10s predicted, not measured\n", x.Strategy, search.Seconds(x.Estimate.Step))
		default:
			fmt.Fprintf(&b, "  %-44s %10s predicted, %10s measured in %d steps (%+.1f%%)\n", x.Strategy,
				search.Seconds(x.Estimate.Step), search.Seconds(x.Seconds()), len(x.Steps),
				100*(x.Seconds()/best.Seconds()-1))
		}
	}
	fmt.Fprintf(&b, "probing took %s of at most %s", search.Seconds(r.Took.Seconds()), search.Seconds(r.Budget.Seconds()))
	if r.Early {
		b.WriteString(": time ran out")
	}
	if best != nil {
		fmt.Fprintf(&b, "; chose %s", best.Strategy)
	}
	return b.String()
}
