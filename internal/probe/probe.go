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

// Config describes what to measure, and for how long.
type Config struct {
	// Candidates are the strategies, the best by the cost model first.
	Candidates []forecast.Candidate
	// Job is the processes that measure together; nil means this one alone.
	Job *job.Job
	// Open makes a Stepper for a strategy.
	Open func(s galley.Strategy) (Stepper, error)
	// Budget limits the total time. The first candidate always gets its first turn.
	Budget time.Duration
	// Room is the bytes that candidates may keep allocated together between their turns: those that fit stay
	// open, the others are opened anew for every turn.
	Room float64
	// Rounds is the most turns of a candidate; 0 means 9 with All, and 20 without, for candidates that fewer do
	// not distinguish.
	Rounds int
	// All gives every candidate all turns, including those that are clearly slower.
	All bool
	// Tell, if set, is called with progress texts.
	Tell func(text string)
	// clock returns the time, used the usage of this process; nil means the system's.
	clock func() time.Time
	used  func() usage
}

func (c *Config) now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return c.clock()
}

// usage returns the usage of this process so far; zero if wall-clock times are used, as with several
// processes: one that waits for another uses processors, too.
func (c *Config) usage() usage {
	switch {
	case c.used != nil:
		return c.used()
	case c.clock != nil || c.Job != nil:
		return usage{}
	}
	return used()
}

// since returns the time since then.
func (c *Config) since(then time.Time) time.Duration { return c.now().Sub(then) }

// Stepper runs steps of a strategy.
type Stepper interface {
	Step() error
	Close() error
}

// Seen is a candidate with its measured steps.
type Seen struct {
	forecast.Candidate
	// Steps are the seconds of steps of all turns; Failed is why it could not run.
	Steps  []float64
	Failed error
	// turn is the total time of its last turn, out means that it is clearly slower.
	turn time.Duration
	out  bool
	// open is its Stepper, if it stays open between turns.
	open Stepper
	// alone means that the time of other programs is excluded from Steps.
	alone bool
}

// bytes returns the memory of a candidate on all devices.
func (s *Seen) bytes() float64 { return s.Estimate.Memory.Total() * float64(s.Strategy.Devices()) }

// Seconds returns the time of its steps; 0 if there is none. If the time of other programs is excluded it is
// the median. Otherwise it is the first octile: other load makes steps longer and never shorter, so the
// shorter ones are more accurate.
func (s *Seen) Seconds() float64 {
	if len(s.Steps) == 0 {
		return 0
	}
	part := 8
	if s.alone {
		part = 2
	}
	return slices.Sorted(slices.Values(s.Steps))[(len(s.Steps)-1)/part]
}

// Report is the result of the measurements.
type Report struct {
	// List has the candidates in the order given.
	List []*Seen
	// Took is the total time, Budget its limit; Early means that time ran out.
	Took, Budget time.Duration
	Early        bool
	// kept is the bytes of candidates that stay open.
	kept float64
}

// usualRounds is the number of turns if all are measured; otherwise it is at least leastRounds, so that
// dropped candidates have had two more turns, and at most mostRounds.
const (
	usualRounds = 9
	leastRounds = 6
	mostRounds  = 20
)

// Each turn runs a step that plans and warms up, then timed ones: one at first, so that all are measured.
const timedSteps = 3

func timed(round int) int {
	if round == 0 {
		return 1
	}
	return timedSteps
}

// Run measures the candidates.
func Run(c Config) (*Report, error) {
	if len(c.Candidates) == 0 {
		return nil, errors.New("probe: no candidates")
	}
	r := &Report{Budget: c.Budget}
	for _, x := range c.Candidates {
		r.List = append(r.List, &Seen{Candidate: x, alone: c.usage().Ran > 0})
	}
	defer r.close()
	start := c.now()
	rounds := c.Rounds
	if rounds == 0 {
		rounds = usualRounds
		if !c.All {
			rounds = mostRounds
		}
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

// round gives every candidate that is not out its turn; done means that no further round is needed or there
// is no time for one.
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
		if err := c.turn(r, x, timed(round), start); err != nil {
			return false, err
		}
	}
	if !c.All {
		r.leaveOut(round)
	}
	return r.Early || r.settled() && (round >= leastRounds || r.alone()), nil
}

// expected returns how long a turn should take: as its last one, or scaled from the others' first turns by
// the predictions.
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

// agree returns the first process's value.
func (c *Config) agree(yes bool) (bool, error) {
	if c.Job == nil {
		return yes, nil
	}
	told, err := c.Job.Broadcast(fmt.Sprint(yes))
	return told == "true", err
}

// opened returns a candidate's Stepper: kept from its last turn, or new.
func (c *Config) opened(r *Report, x *Seen) (t Stepper, done func(), err error) {
	if x.open != nil {
		return x.open, func() {}, nil
	}
	if t, err = c.Open(x.Strategy); err != nil {
		return nil, nil, err
	}
	done = func() { _ = t.Close() }
	if keep, err := c.agree(c.Room > 0 && r.kept+x.bytes() <= c.Room); err != nil || !keep {
		return t, done, err
	}
	x.open, r.kept = t, r.kept+x.bytes()
	return t, func() {}, nil
}

// close closes all Steppers that were kept open.
func (r *Report) close() {
	for _, x := range r.List {
		r.shut(x)
	}
}

// shut closes a candidate that has no turn in the near future.
func (r *Report) shut(x *Seen) {
	if x.open != nil {
		_ = x.open.Close()
		x.open, r.kept = nil, r.kept-x.bytes()
	}
}

// turn runs some steps of a candidate. One that cannot run is dropped; in a job, an error of one process is
// that of all.
func (c *Config) turn(r *Report, x *Seen, timed int, start time.Time) error {
	begin := c.now()
	defer func() { x.turn = c.since(begin) }()
	t, done, err := c.opened(r, x)
	if t == nil {
		x.Failed = err
		return nil
	}
	if err != nil {
		done()
		return err
	}
	defer done()
	for i := range timed + 1 {
		if i > 1 || i > 0 && len(x.Steps) > 0 { // one step is always timed, further ones while there is time
			yes, err := c.agree(c.since(start) < c.Budget)
			if err != nil || !yes {
				r.Early = true
				return err
			}
		}
		had, at := c.usage(), c.now()
		if err := t.Step(); err != nil {
			if c.Job != nil {
				return err
			}
			x.Failed = err
			r.shut(x)
			return nil
		}
		took, now := c.since(at).Seconds(), c.usage()
		took, err := c.shared(usage{now.Ran - had.Ran, now.Waited - had.Waited}.alone(took))
		if err != nil {
			return err
		}
		if i > 0 {
			x.Steps = append(x.Steps, took)
		}
	}
	return nil
}

// shared returns the first process's number, so that all processes make the same decision.
func (c *Config) shared(seconds float64) (float64, error) {
	if c.Job == nil {
		return seconds, nil
	}
	told, err := c.Job.Broadcast(strconv.FormatFloat(seconds, 'g', -1, 64))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(told, 64)
}

// slower is the factor above which a candidate is out after each round: it decreases with the number of
// steps.
var slower = []float64{10, 4, 2, 1.4, 1.15, 1.08, 1.05, 1.04, 1.03, 1.03, 1.02}

// A candidate that is out gets another turn after some rounds, unless it is hopeless: other load may have
// affected all of its turns so far.
const hopeless, leastHopeless = 4, 1.15

func again(round int) bool { return round%3 == 2 }

// noise returns the factor by which steps of the same candidate differ, for most candidates. It is 0 before
// any has had two turns.
func (r *Report) noise() float64 {
	var list []float64
	for _, x := range r.List {
		if len(x.Steps) > 1 {
			list = append(list, slices.Max(x.Steps)/slices.Min(x.Steps))
		}
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*3/4]
}

// limits returns the factors, relative to the best, above which a candidate is out after a round, and above
// which it gets no other turn. On an otherwise idle machine steps differ little, and few of them distinguish
// candidates.
func (r *Report) limits(round int) (out, never float64) {
	out, never = slower[min(round, len(slower)-1)], hopeless
	if noise := r.noise(); noise > 0 {
		out, never = min(out, max(noise, slower[len(slower)-1])), min(never, max(noise*noise, leastHopeless))
	}
	return out, never
}

// leaveOut marks the candidates without a turn in the next round: those that are clearly slower by all
// measurements so far. One that was out returns if others turn out to be no faster.
func (r *Report) leaveOut(round int) {
	best := r.Best()
	if best == nil {
		return
	}
	limit, never := r.limits(round)
	for _, x := range r.List {
		times := x.Seconds() / best.Seconds()
		if x.out = times > limit && !(again(round) && times < never); x.out {
			r.shut(x)
		}
	}
}

// settled reports whether one candidate is left.
func (r *Report) settled() bool {
	left := 0
	for _, x := range r.List {
		if !x.out && x.Failed == nil {
			left++
		}
	}
	return left <= 1
}

// alone reports whether all others are hopeless, or cannot run.
func (r *Report) alone() bool {
	best, left := r.Best(), 0
	for _, x := range r.List {
		if best != nil && x.Failed == nil && x.Seconds() < hopeless*best.Seconds() {
			left++
		}
	}
	return left <= 1
}

// Best returns the candidate with the shortest steps; nil if none ran.
func (r *Report) Best() *Seen {
	var best *Seen
	for _, x := range r.List {
		if x.Seconds() > 0 && (best == nil || x.Seconds() < best.Seconds()) {
			best = x
		}
	}
	return best
}

// Measured returns the strategies that ran, for a calibration.
func (r *Report) Measured() (list []forecast.Measured) {
	for _, x := range r.List {
		if x.Seconds() > 0 {
			list = append(list, forecast.Measured{Strategy: x.Strategy, Seconds: x.Seconds()})
		}
	}
	return list
}

// String prints a table of the measurements, and the conclusion.
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
	fmt.Fprintf(
		&b,
		"probing took %s of at most %s",
		search.Seconds(r.Took.Seconds()),
		search.Seconds(r.Budget.Seconds()),
	)
	if r.Early {
		b.WriteString(": time ran out")
	}
	if best != nil {
		fmt.Fprintf(&b, "; chose %s", best.Strategy)
	}
	return b.String()
}
