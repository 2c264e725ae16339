package main

import (
	"fmt"
	"io"
	"time"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/internal/trace"
)

// isStep reports whether a file is the plan of a step, as dump --after=tape prints it.
func isStep(text []byte) bool { return len(text) > 5 && string(text[:5]) == "plan " }

// step draws the plan of a step: every device's tape runs against a simulated clock.
func (c *simulateCmd) step(text []byte) error {
	if c.Micros != 0 {
		return fmt.Errorf("--micros=%d: the plan of a step is drawn whole: leave it out", c.Micros)
	}
	p, err := step.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Plan, err)
	}
	if p.Devices() == 0 {
		return fmt.Errorf("%s: it has no tapes: want what galley dump --after=tape prints", c.Plan)
	}
	m, err := c.machine(p)
	if err != nil {
		return err
	}
	var spans []step.Span
	m.Watch = func(s step.Span) { spans = append(spans, s) }
	f, err := p.Forecast(m)
	if err != nil {
		return err
	}
	c.files()
	if err := writeTo(c.Trace, func(w io.Writer) error {
		l := &timeline{w: trace.NewWriter(w)}
		for _, s := range spans {
			l.span(s)
		}
		return l.w.Close()
	}); err != nil {
		return err
	}
	if err := writeTo(c.SVG, stepGrid(p, spans, f).WriteSVG); err != nil {
		return err
	}
	c.printStep(p, f, m)
	return nil
}

// machine returns the simulated hardware: this machine's by a calibration, or devices of nominal speed.
func (c *simulateCmd) machine(p *step.Plan) (step.Machine, error) {
	if c.Calibration == "" {
		return step.Machine{Cores: p.Devices(), Crowd: 1, Prices: step.Nominal{}}, nil
	}
	text, err := strict.ReadFile(c.Calibration, strict.Config)
	if err != nil {
		return step.Machine{}, fmt.Errorf("--calibration: %w", err)
	}
	cal, err := plan.ParseCalibration(text)
	if err == nil && cal.Host == nil {
		err = fmt.Errorf("it says nothing of this machine's cores: want one that galley calibrate measured")
	}
	if err != nil {
		return step.Machine{}, fmt.Errorf("--calibration: %s: %w", c.Calibration, err)
	}
	h := cal.Host
	return step.Machine{Cores: h.Cores, Threads: h.Cores, Crowd: h.Crowd, Latency: h.Idle, Spread: h.Spread,
		Prices: h}, nil
}

func (c *simulateCmd) printStep(p *step.Plan, f step.Forecast, m step.Machine) {
	on := "devices of nominal speed"
	if c.Calibration != "" {
		on = fmt.Sprintf("%d cores of this machine", m.Cores)
	}
	fmt.Printf("%s plan: %d devices, %d stages, %d micro-batches, %s, on %s\n", p.Kind, p.Devices(),
		len(p.Stages),
		len(p.Variant), p.Schedule.Name, on)
	fmt.Printf("step %s simulated, idle %.1f%% of it\n", trace.Seconds(f.Seconds),
		100*f.Waiting/(f.Seconds*float64(m.Cores)))
	most, device := 0, 0
	for d := range p.Devices() {
		if n := p.Memory(d).Peak(); n > most {
			most, device = n, d
		}
	}
	fmt.Printf("memory %s on device %d\n", bytesText(most), device)
	fmt.Printf("wrote %s and %s\n", c.Trace, c.SVG)
}

// stepClasses are the kinds of boxes in a step's picture, stepFills their colours.
var (
	stepClasses = []string{"forward", "backward", "input gradient", "weight gradient", "update", "message"}
	stepFills   = []string{"#8ec5f0", "#f2a65a", "#f2d768", "#d3bdea", "#a8d8b9", "#d8dee4"}
)

// stepGrid returns the picture of a step: a row for each device.
func stepGrid(p *step.Plan, spans []step.Span, f step.Forecast) *trace.Grid {
	g := &trace.Grid{
		Title: fmt.Sprintf("%s plan: %d devices, %d stages, %d micro-batches", p.Kind, p.Devices(), len(p.Stages),
			len(p.Variant)),
		Note: trace.Seconds(f.Seconds),
	}
	for i, name := range stepClasses {
		g.Classes = append(g.Classes, trace.Class{Name: name, Fill: stepFills[i]})
	}
	for d := range p.Devices() {
		g.Rows = append(g.Rows, trace.Row{Name: fmt.Sprintf("device %d", d)})
	}
	for _, s := range spans {
		if s.Kind == step.Exchange {
			continue
		}
		b := stepBox(s)
		g.Rows[s.Device].Boxes = append(g.Rows[s.Device].Boxes, b)
	}
	return g
}

// stepBox returns an instruction as a box of the picture.
func stepBox(s step.Span) trace.Box {
	start, end := s.Start.Sub(time.Time{}).Seconds(), s.End.Sub(time.Time{}).Seconds()
	b := trace.Box{Start: start, End: end, Class: len(stepClasses) - 1,
		Tip: fmt.Sprintf("%s: %s from %s on", s.Name, trace.Seconds(end-start), trace.Seconds(start))}
	if s.Kind != step.Work {
		return b
	}
	b.Class = len(stepClasses) - 2
	if a, err := pipeline.ParseAction(s.Name); err == nil {
		b.Class, b.Text = int(a.Kind), fmt.Sprint(a.Micro)
	}
	return b
}
