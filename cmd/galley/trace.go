package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/trace"
)

// traceCmd trains for some steps and records what every device does when.
type traceCmd struct {
	trainCmd
	Out   string   `short:"o" help:"File to write; ui.perfetto.dev and chrome://tracing open it." default:"trace.json" type:"path"`
	Merge []string `help:"Merge these files, which the processes of a job wrote, in place of training." type:"path"`
}

// Help returns the text that galley trace --help adds.
func (traceCmd) Help() string {
	return `Trains as galley train does and writes the timeline of the run: for each device its work by stage and
micro-batch, the collectives within it with their axes, groups and bytes, waits for messages (the bubbles of a
pipeline) and the memory that it uses; and prints what collectives moved and took, by axes and group. --steps
is best small. The processes of a job write a file each, by clocks that a barrier sets to one moment; the
first process makes them one where it sees the files, and --merge does so elsewhere.

Examples:
  galley trace --mesh dp=2,pp=2 --schedule zbh1 --micro 4 --steps 3 -o trace.json
  galley launch -n 2 -- trace --mesh dp=2 --zero 1 --steps 3 -o trace.json
  galley trace --merge trace.0.json,trace.1.json -o trace.json`
}

func (c *traceCmd) Run() error {
	if len(c.Merge) > 0 {
		return mergeTraces(c.Out, c.Merge)
	}
	if err := c.validate(); err != nil {
		return err
	}
	path := c.Out
	if job != nil {
		path = ofProcess(c.Out, job.Rank())
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	threads := c.Threads
	if threads == 0 {
		threads = threadsHere()
	}
	keepTo(threads)
	d := galley.CPU(galley.Config{Threads: threads})
	defer d.Close()
	start, err := oneMoment()
	if err != nil {
		return err
	}
	w := &timeline{w: trace.NewWriter(file), start: start, sums: traffic{}}
	c.Tokens = 0
	t := &training{trainCmd: &c.trainCmd, d: d, watch: w.span}
	ended := t.run()
	if _, stopped := errors.AsType[*stoppedError](ended); ended != nil && !stopped {
		return ended
	}
	if err := errors.Join(w.w.Close(), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := printTraffic(w.sums); err != nil {
		return errors.Join(ended, err)
	}
	return errors.Join(ended, c.finish())
}

// finish merges the files of all processes into one, on the first process, if it can read them.
func (c *traceCmd) finish() error {
	if job != nil {
		if _, err := job.Max(0); err != nil || !job.First() { // waits until all are written
			return err
		}
		var files []string
		for q := range job.Size() {
			path := ofProcess(c.Out, q)
			if _, err := os.Stat(path); err != nil {
				fmt.Printf("%s is on another host: galley trace --merge FILES -o %s makes one of all\n",
					filepath.Base(path), c.Out)
				return nil
			}
			files = append(files, path)
		}
		return mergeTraces(c.Out, files)
	}
	fmt.Printf("wrote %s: open it at ui.perfetto.dev\n", c.Out)
	return nil
}

// ofProcess returns the file name of a process: trace.3.json.
func ofProcess(path string, process int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), process, ext)
}

// mergeTraces merges several files into one.
func mergeTraces(out string, files []string) error {
	texts := make([][]byte, len(files))
	for i, path := range files {
		if path == out {
			return fmt.Errorf("--merge: %s is the file to write: choose another with -o", path)
		}
		var err error
		if texts[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := errors.Join(trace.Merge(f, texts...), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	fmt.Printf("wrote %s, of %d processes: open it at ui.perfetto.dev\n", out, len(files))
	return nil
}

// moments is how many barriers precede the common time: by the last ones everything is warm.
const moments = 10

// oneMoment returns the current time, read by all processes just after a barrier.
func oneMoment() (time.Time, error) {
	if job != nil {
		for range moments {
			if _, err := job.Max(0); err != nil {
				return time.Time{}, err
			}
		}
	}
	return time.Now(), nil
}

// timeline writes the spans of devices to tracks of a trace.
type timeline struct {
	mu    sync.Mutex
	w     *trace.Writer
	start time.Time
	sums  traffic
}

func (l *timeline) span(s galley.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	device := fmt.Sprintf("device %d", s.Device)
	track, category := "work", "compute"
	var args []trace.Arg
	switch s.Kind {
	case galley.SpanExchange:
		return // its collectives are recorded by themselves
	case galley.SpanCollective:
		track, category = "collectives", "communication"
		args = []trace.Arg{{Name: "axes", Value: s.Axes}, {Name: "group", Value: s.Group},
			{
				Name:  "bytes",
				Value: s.Bytes,
			}, {Name: "begun_before_us", Value: float64(s.Start.Sub(s.Since).Microseconds())}}
		l.sums.add(s)
	case galley.SpanMessage:
		track, category = "messages", "communication"
	}
	at := l.w.Track(device, track)
	start := s.Start.Sub(l.start).Seconds()
	l.w.Span(at, trace.Span{Name: s.Name, Category: category, Start: start,
		Duration: s.End.Sub(s.Start).Seconds(), Args: args})
	if s.Kind == galley.SpanWork {
		l.w.Counter(at, "step memory", start, float64(s.Live))
	}
}
