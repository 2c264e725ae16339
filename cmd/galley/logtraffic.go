package main

import (
	"encoding/json"
	"sync"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/fit"
)

// loggedTraffic sums the bytes and times of collectives for the run's log; nil if they are not logged.
type loggedTraffic struct {
	mu sync.Mutex
	// all is the sum of the run, by axes, kind and group; rows are the sums of each step, without groups.
	all  traffic
	rows map[int]traffic
	step int // the step that devices run now
}

// logsTraffic returns the traffic log of a run whose log file format can hold it. The first process's log
// decides: all processes call it.
func (t *training) logsTraffic(s *galley.Strategy) (*loggedTraffic, error) {
	wants := 0
	for _, path := range t.Log {
		if format, _ := logFormat(path); format == "jsonl" && job.First() {
			wants = 1
		}
	}
	wants, err := job.Max(wants)
	if err != nil || wants == 0 || s == nil || t.b != nil {
		return nil, err
	}
	return &loggedTraffic{all: traffic{}, rows: map[int]traffic{}}, nil
}

// span adds a collective to the sums of the run and of the current step.
func (g *loggedTraffic) span(s galley.Span) {
	if s.Kind != galley.SpanCollective {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.add(s)
	if row := g.rows[g.step]; row != nil {
		s.Group = ""
		row.add(s)
	}
}

// begin sets the step that the following collectives belong to.
func (g *loggedTraffic) begin(step int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.step, g.rows[step] = step, traffic{}
}

// take returns the collectives of a step and forgets them.
func (g *loggedTraffic) take(step int) []fit.CollectiveLog {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer delete(g.rows, step)
	return g.rows[step].list()
}

// logTraffic writes the bytes and times of all processes' collectives in the run, by axes, kind and group.
// All processes call it.
func (l *loop) logTraffic() error {
	if l.traffic == nil {
		return nil
	}
	l.traffic.mu.Lock()
	own := l.traffic.all
	l.traffic.mu.Unlock()
	all, err := ofAll(own)
	if err != nil || len(all) == 0 {
		return err
	}
	text, err := json.Marshal(map[string]any{"step": l.trainer.Steps(), "event": "the run's collectives",
		"collectives": all.list()})
	if err != nil {
		return err
	}
	return l.log.event(text)
}

// watchers returns a function that passes spans to both f and g, either of which may be nil.
func watchers(f, g func(galley.Span)) func(galley.Span) {
	if f == nil || g == nil {
		if f == nil {
			f = g
		}
		return f
	}
	return func(s galley.Span) {
		f(s)
		g(s)
	}
}
