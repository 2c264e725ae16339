package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/trace"
)

// traceCmd trains for some steps and writes down what every device did when.
type traceCmd struct {
	trainCmd
	Out string `short:"o" help:"File to write; ui.perfetto.dev and chrome://tracing open it." default:"trace.json" type:"path"`
}

// Help is what galley trace --help adds.
func (traceCmd) Help() string {
	return `Trains as galley train does and writes the timeline of the run: for each device its work by stage and micro-batch, the collectives
within it, waits for messages (the bubbles of a pipeline) and the memory that it uses. --steps is best small.

Example:
  galley trace --mesh dp=2,pp=2 --schedule zbh1 --micro 4 --steps 3 -o trace.json`
}

func (c *traceCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	file, err := os.Create(c.Out)
	if err != nil {
		return err
	}
	defer file.Close()
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	w := &timeline{w: trace.NewWriter(file), start: time.Now()}
	c.Tokens = 0
	t := &training{trainCmd: &c.trainCmd, d: d, watch: w.span}
	ended := t.run()
	if _, stopped := errors.AsType[*stoppedError](ended); ended != nil && !stopped {
		return ended
	}
	if err := w.w.Close(); err != nil {
		return fmt.Errorf("%s: %w", c.Out, err)
	}
	fmt.Printf("wrote %s: open it at ui.perfetto.dev\n", c.Out)
	return errors.Join(ended, file.Close())
}

// timeline puts spans of devices on tracks.
type timeline struct {
	mu    sync.Mutex
	w     *trace.Writer
	start time.Time
}

func (l *timeline) span(s galley.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	device := fmt.Sprintf("device %d", s.Device)
	track, category := "work", "compute"
	switch s.Kind {
	case galley.SpanExchange:
		track, category = "collectives", "communication"
	case galley.SpanMessage:
		track, category = "messages", "communication"
	}
	at := l.w.Track(device, track)
	start := s.Start.Sub(l.start).Seconds()
	l.w.Span(at, trace.Span{Name: s.Name, Category: category, Start: start,
		Duration: s.End.Sub(s.Start).Seconds()})
	if s.Kind == galley.SpanWork {
		l.w.Counter(at, "step memory", start, float64(s.Live))
	}
}
