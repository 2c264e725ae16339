package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/probe"
	"github.com/galley-ml/galley/internal/search"
)

// windowSteps is the number of steps in a window. A slow process is reported after two windows in a row.
const windowSteps = 5

// adapter watches a run on many devices: it compares the forecast step time with the measured one, term by
// term, reports slow processes and links, and decides when changing to another plan pays off. All processes
// of a job see the same numbers, so they decide the same.
type adapter struct {
	t        *training
	watch    *probe.Watch
	judge    probe.Judge
	strategy galley.Strategy
	run      forecast.Run
	// forecast is the forecast step time by terms; constants are the measured factors of the terms so far, and
	// told the factors that were printed last.
	forecast        plan.Estimate
	constants, told plan.Constants
	steps           int
	began, at       time.Time
	// setup is the time from the start of the run to the end of the first step.
	setup time.Duration
	// slow is, for each process, how many times as long as the others it takes; 1 if it is not slow.
	slow []float64
	next *galley.Strategy
	move *moved
}

// moved is a change of plan: the predicted speedup, and the time of a step before it.
type moved struct {
	predicted, before float64
	slow              []float64
	windows           int
	after             float64
}

// adapts returns an adapter for a strategy, or nil if the run cannot be adapted.
func (t *training) adapts(s *galley.Strategy) (*adapter, error) {
	if t.Adapt == "off" || t.Adapt == "" || s == nil || t.b != nil || t.watch != nil {
		return nil, nil
	}
	full, err := s.WithDefaults()
	if err != nil || full.Devices() < 2 {
		return nil, nil
	}
	run, err := t.onMachine(galley.AutoConfig{Model: t.model.Config(), Batch: t.Batch, Seq: t.Seq,
		Devices: full.Devices(), AMP: full.AMP})
	if err != nil {
		return nil, err
	}
	if t.learned != nil {
		run.Calibration = t.learned.YAML()
	}
	a := &adapter{t: t, watch: &probe.Watch{}, strategy: full, run: forecast.Run(run), began: time.Now(),
		move: t.moved, slow: make([]float64, max(1, job.Size())),
		told: plan.Constants{Compute: 1, Communication: 1}}
	for i := range a.slow {
		a.slow[i] = 1
	}
	if a.move != nil && len(a.move.slow) == len(a.slow) { // measured before the move
		copy(a.slow, a.move.slow)
		a.judge.Know(a.slow)
	}
	if a.forecast, err = forecast.EstimateUneven(a.run, full, a.speeds()); err != nil {
		return nil, nil // without a forecast there is nothing to adapt
	}
	return a, nil
}

// speeds returns the speed of each process as a part of what it was.
func (a *adapter) speeds() []float64 {
	list := make([]float64, len(a.slow))
	for i, x := range a.slow {
		list[i] = 1 / max(1, x)
	}
	return list
}

// mayMove reports whether the run may change its plan. A plan that the user gave stays, unless --adapt is on.
func (c *trainCmd) mayMove() bool {
	return c.Adapt == "on" || c.Adapt == "auto" && c.Mesh == "" && c.Plan == ""
}

// weigh sets the work of each process in a step, in FLOPs.
func (a *adapter) weigh(p *galley.StepPlan) {
	n := len(a.slow)
	devices := p.Cost().Devices
	a.judge.Work = make([]float64, n)
	for i, d := range devices {
		a.judge.Work[i*n/len(devices)] += d.Flops
	}
}

// before runs before each step; at the end of a window it reports whether the run changes to another plan.
func (a *adapter) before(step int) (bool, error) {
	if a == nil {
		return false, nil
	}
	if a.steps++; a.steps == 2 { // the first step includes planning and warm-up
		a.setup, a.at = time.Since(a.began), time.Now()
		a.watch.Take(1, 0)
		return false, nil
	}
	if a.steps < 2 || (a.steps-2)%windowSteps != 0 {
		return false, nil
	}
	terms := a.watch.Take(windowSteps, time.Since(a.at).Seconds())
	a.at = time.Now()
	texts := []string{terms.String()}
	if job != nil {
		var err error
		if texts, err = job.All(terms.String()); err != nil {
			return false, err
		}
	}
	window, err := probe.ParseTerms(texts)
	if err != nil {
		return false, err
	}
	return a.see(step, window)
}

// see evaluates a window of the terms of all processes and reports whether the run changes its plan.
func (a *adapter) see(step int, window []probe.Terms) (bool, error) {
	a.compare(step, window)
	a.gained(step, window)
	if x := a.judge.Links(window); x > 0 && !a.judge.Uneven(window) {
		a.say("step %d: exchanging takes %.1f times what it did at first, of the process that waits least: a "+
			"slow link", step, x)
	}
	named := a.judge.See(window)
	for _, s := range named {
		a.say("step %d: %s computes %.1f times as long as the others for its share: a straggler", step,
			processName(s.Process), s.Times)
		a.slow[s.Process] = s.Times
	}
	if len(named) == 0 {
		return false, nil
	}
	if e, err := forecast.EstimateUneven(a.run, a.strategy, a.speeds()); err == nil {
		a.forecast = e
	}
	return a.replan(step, window)
}

func processName(n int) string {
	if job == nil {
		return fmt.Sprintf("process %d", n)
	}
	return job.Name(n)
}

// say prints a decision with its reason, on the first process.
func (a *adapter) say(format string, args ...any) {
	if job.First() {
		fmt.Printf("\radapt: "+format+"\n", args...)
	}
}

// changedBy is the relative change of a term after which it is printed again.
const changedBy = 0.25

// compare updates the measured factors of the forecast's terms, and prints them if they have changed.
func (a *adapter) compare(step int, window []probe.Terms) {
	p := &a.forecast.Parts
	compute, computing := a.computing(window)
	exchange, communicating := window[0].Exchange, p.Communication()+p.Bubble
	for _, t := range window {
		exchange = min(exchange, t.Exchange) // of the process that waits least for others
	}
	a.constants.Compute = follow(a.constants.Compute, compute, computing)
	known := communicating
	if p.Bubble > 0 || a.judge.Uneven(window) { // most of it is waiting for others, not communication
		known = 0
	}
	a.constants.Communication = follow(a.constants.Communication, exchange, known)
	if !far(a.told.Compute, a.constants.Compute) && !far(a.told.Communication, a.constants.Communication) {
		return
	}
	a.told = a.constants
	a.say("step %d: a step takes %s where %s was forecast: computing %s of %s, exchanging %s of %s; the "+
		"calibration follows",
		step, seconds(window[0].Step), seconds(a.forecast.Step), seconds(compute), seconds(computing),
		seconds(exchange),
		seconds(communicating))
	a.learn()
}

// computing returns the measured and the forecast seconds of computing of the process in the middle, by their
// ratio: one that has become slow says nothing of the machine. The forecast is of the busiest process; others
// have less of the work, or do it faster.
func (a *adapter) computing(window []probe.Terms) (measured, predicted float64) {
	p := &a.forecast.Parts
	most := 0.0
	shares := make([]float64, len(window))
	for i := range shares {
		shares[i] = a.slow[i] * a.judge.Work[i]
		most = max(most, shares[i])
	}
	order := make([]int, len(window))
	for i := range order {
		order[i] = i
		shares[i] *= (p.Compute + p.Recompute + p.Optimizer) / most
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Compare(window[i].Compute*shares[j], window[j].Compute*shares[i])
	})
	i := order[(len(order)-1)/2]
	return window[i].Compute, shares[i]
}

// follow returns a factor after a window: the mean of the old and the measured one; the first window sets it.
// A term without a forecast keeps its factor.
func follow(was, measured, forecast float64) float64 {
	switch {
	case forecast <= 0 || measured <= 0:
		return cmp.Or(was, 1)
	case was == 0:
		was = measured / forecast
	}
	return min(99, (was+measured/forecast)/2)
}

func seconds(x float64) string { return search.Seconds(x) }

func far(was, is float64) bool { return is > was*(1+changedBy) || is*(1+changedBy) < was }

// learn stores the calibration scaled by the measured factors, and writes it to the file of --learned.
func (a *adapter) learn() {
	cal, err := forecast.Scaled(a.run, a.constants)
	if err != nil {
		return
	}
	a.t.learned = &cal
	if a.t.Learned != "" && job.First() {
		if err := os.WriteFile(a.t.Learned, cal.YAML(), 0o644); err != nil {
			a.say("--learned: %v", err)
		}
	}
}

// A change of plan must save moveFactor times its cost and make steps leastGain times as fast: smaller
// differences are within the noise of a machine from one minute to the next.
const (
	moveFactor = 2
	leastGain  = 1.1
)

// planName returns a strategy as text, with the layers of its stages if they are given.
func planName(s galley.Strategy) string {
	if len(s.Layers) == 0 {
		return s.String()
	}
	return fmt.Sprintf("%s with layers %v", s, s.Layers)
}

// replan searches the best plan for the current speeds of the processes, and decides whether to change to it.
func (a *adapter) replan(step int, window []probe.Terms) (bool, error) {
	type answer struct {
		Best         forecast.Candidate
		Now          float64
		Setup, Taken float64
	}
	r, err := first(func() (*answer, error) {
		cal, err := forecast.Scaled(a.run, a.constants)
		if err != nil {
			return nil, err
		}
		run := a.run
		run.Calibration = cal.YAML()
		best, now, err := forecast.Replan(run, a.strategy, a.speeds())
		return &answer{best, now, a.setup.Seconds(), window[0].Step}, err
	})
	if err != nil {
		a.say("step %d: no other plan: %v", step, err)
		return false, nil
	}
	// The ratio is the forecast's, the seconds are measured.
	ratio := r.Now / r.Best.Estimate.Step
	left := a.t.Steps - step
	gain := r.Taken * (1 - 1/ratio) * float64(left)
	cost := moveFactor * r.Setup
	what := fmt.Sprintf("%s to %s: predicted %.2f times as fast; it saves %s in the %d steps that are left "+
		"and costs about %s",
		planName(a.strategy), planName(r.Best.Strategy), ratio, seconds(gain), left, seconds(r.Setup))
	switch {
	case r.Best.Strategy.Equal(a.strategy):
		a.say("step %d: %s stays: no plan is faster on such processes", step, planName(a.strategy))
	case gain < cost || ratio < leastGain:
		a.say("step %d: not moved from %s", step, what)
	case elastic != nil:
		a.say("step %d: would move from %s: in an elastic job its agents plan", step, what)
	case a.t.Checkpoint == "" || !a.t.mayMove():
		a.say("step %d: would move from %s: --checkpoint DIR with --adapt on lets it", step, what)
	default:
		a.say("step %d: moves from %s", step, what)
		a.next = &r.Best.Strategy
		a.move = &moved{predicted: ratio, before: r.Taken, slow: a.slow}
		return true, nil
	}
	return false, nil
}

// gained prints the measured speedup of a change of plan, after two windows.
func (a *adapter) gained(step int, window []probe.Terms) {
	m := a.move
	if m == nil || a.next != nil || m.windows >= 2 {
		return
	}
	m.after += window[0].Step / 2
	if m.windows++; m.windows == 2 {
		a.say("step %d: the move has made steps %.2f times as fast (%s, %s before): %.2f was predicted", step,
			m.before/m.after, seconds(m.after), seconds(m.before), m.predicted)
	}
}

// handOver passes the next plan to the run and reports whether there is one.
func (a *adapter) handOver() bool {
	if a == nil || a.next == nil {
		return false
	}
	a.t.next, a.t.moved = a.next, a.move
	return true
}
