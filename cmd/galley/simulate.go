package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/internal/trace"
	"github.com/galley-ml/galley/strategy"
)

// simulateCmd draws the simulated timeline of a plan file, or of the plan of a step.
type simulateCmd struct {
	Plan        string `arg:"" help:"File of galley plan -o, or what galley dump --after=tape printed."`
	Trace       string `help:"Where to write the trace, for ui.perfetto.dev or chrome://tracing; plan.trace.json for plan.yaml." placeholder:"FILE"`
	SVG         string `name:"svg" help:"Where to write the picture; plan.svg for plan.yaml." placeholder:"FILE"`
	Calibration string `help:"File of galley calibrate, if the plan was made with one." placeholder:"FILE"`
	Micros      int    `help:"Micro-batches in the picture; 0 is as many as can be read." default:"0"`
}

// Help returns the text that galley simulate --help adds.
func (simulateCmd) Help() string {
	return `The schedule of the plan runs action by action with the times that its stages are predicted to take:
who computes what, who waits for whom, which messages are under way, and what each device holds. The trace has
all micro-batches of a step; the picture has the first ones.

Of the plan of a step, as galley dump --after=tape prints it, every device plays its tape against a clock: on
cores of this machine with a --calibration, else on devices of a nominal speed.

Examples:
  galley plan llama-3-70b '8x8 H100-SXM ib=400G' -o plan.yaml && galley simulate plan.yaml
  galley dump --after=tape --mesh dp=2,pp=4 --micro 8 > step.plan && galley simulate step.plan`
}

func (c *simulateCmd) Run() error {
	if err := natural(map[string]int{"micros": c.Micros}); err != nil {
		return err
	}
	if text, err := strict.ReadFile(c.Plan, strict.Config); err == nil && isStep(text) {
		return c.step(text)
	}
	return c.priced()
}

// priced draws a plan file of galley plan.
func (c *simulateCmd) priced() error {
	f, err := planfile.Load(c.Plan)
	if err != nil {
		return err
	}
	hw, err := f.Ordered()
	if err != nil {
		return err
	}
	whole, err := f.Hardware() // with idle devices: the plan was priced for all of them
	if err != nil {
		return err
	}
	cal, err := readCalibration(c.Calibration, whole, f.Workload)
	if err != nil {
		return err
	}
	e, err := plan.NewEstimator(f.Workload, hw, cal)
	if err != nil {
		return err
	}
	s, err := search.Simulate(e, f.Strategy, 0)
	if err != nil {
		return err
	}
	c.files()
	if err := writeTo(c.Trace, func(w io.Writer) error { return writeTrace(w, s) }); err != nil {
		return err
	}
	if c.Micros == 0 {
		c.Micros = min(32, 2*one(f.Strategy.PP)+2)
	}
	if err := c.picture(e, f.Strategy); err != nil {
		return err
	}
	return c.print(s, f)
}

// files sets the names of output files that were not given.
func (c *simulateCmd) files() {
	stem := c.Plan
	for _, end := range []string{".yaml", ".yml", ".plan"} {
		stem = strings.TrimSuffix(stem, end)
	}
	if c.Trace == "" {
		c.Trace = stem + ".trace.json"
	}
	if c.SVG == "" {
		c.SVG = stem + ".svg"
	}
}

func (c *simulateCmd) print(s *search.Simulated, f *planfile.File) error {
	fmt.Printf("%s on %s\n%s\n\n", f.Workload.Model.Name, firstLine(f.Cluster), f.Strategy.Line())
	t := s.Timeline
	fmt.Printf("pipeline %s, ranks idle %.1f%% of it\n", search.Seconds(t.Makespan), 100*t.BubbleFraction())
	for _, p := range s.Tail {
		fmt.Printf("then %s %s\n", p.Name, search.Seconds(p.Value))
	}
	fmt.Printf("step %s simulated, %s predicted\n", search.Seconds(s.Step()), search.Seconds(f.Predicted.Step))
	worst, rank := 0.0, 0
	for r, peak := range t.PeakBytes {
		if peak+s.Held[r] > worst {
			worst, rank = peak+s.Held[r], r
		}
	}
	if limit := s.Plan.Estimate.Stages[rank].Limit; worst > limit {
		fmt.Printf("rank %d has %.1f GB: it would run out of memory\n", rank, limit/1e9)
	}
	e := f.Predicted.Estimate()
	fmt.Printf("memory %.1f GB on rank %d, %.1f GB predicted\n", worst/1e9, rank, e.Memory.Total()/1e9)
	_, err := fmt.Printf("wrote %s and %s\n", c.Trace, c.SVG)
	return err
}

// picture draws the first micro-batches as SVG.
func (c *simulateCmd) picture(e *plan.Estimator, spread strategy.Strategy) error {
	s, err := search.Simulate(e, spread, c.Micros)
	if err != nil {
		return err
	}
	g := s.Timeline.Grid()
	if all := spread.Micros(e.Workload().Batch); c.Micros < all {
		g.Note = fmt.Sprintf("%d of %d micro-batches: %s", c.Micros, all, g.Note)
	}
	g.CurveTitle = "Memory of a device"
	for i := range g.Curves {
		for j := range g.Curves[i].Points {
			g.Curves[i].Points[j].Value += s.Held[i]
		}
	}
	return writeTo(c.SVG, g.WriteSVG)
}

// writeTrace writes the timeline, the work after the pipeline and the memory of each rank as a trace.
func writeTrace(w io.Writer, s *search.Simulated) error {
	t := trace.NewWriter(w)
	s.Timeline.Trace(t)
	for r, held := range s.Held {
		name := fmt.Sprintf("rank %d", r)
		track := t.Track(name, "step")
		at := s.Timeline.Makespan
		for _, p := range s.Tail {
			t.Span(track, trace.Span{Name: p.Name, Category: "tail", Start: at, Duration: p.Value})
			at += p.Value
		}
		for _, m := range s.Timeline.Memory(r) {
			t.Counter(track, "memory of a device (bytes)", m.Time, m.Bytes+held)
		}
	}
	return t.Close()
}

// writeTo creates a file and removes it if writing fails.
func writeTo(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return reason(path, err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		os.Remove(path)
		return reason(path, err)
	}
	return nil
}
