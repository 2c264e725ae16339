package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
)

// Writer streams events as a JSON array of Chrome's trace events. It may be used by several goroutines. The
// first error sticks: later calls do nothing, and Close returns it.
type Writer struct {
	mu        sync.Mutex
	w         *bufio.Writer
	err       error
	events    int
	flows     int
	processes []process
	line      []byte
}

// process is a named group of tracks.
type process struct {
	name    string
	threads []string
}

// Track is a line of the timeline. Its zero value is the first track that was made.
type Track struct{ process, thread int }

// Span is something that took time. Start and Duration are seconds.
type Span struct {
	Name, Category  string
	Start, Duration float64
	Args            []Arg
}

// Arg is a fact about an event: a string, a bool or a number.
type Arg struct {
	Name  string
	Value any
}

// NewWriter begins a trace. Close ends it.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriter(w)}
}

// Track finds or makes the track of that name in the group of that name. Groups and tracks are shown in the
// order in which they are first named.
func (w *Writer) Track(group, name string) Track {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := 0
	for p < len(w.processes) && w.processes[p].name != group {
		p++
	}
	if p == len(w.processes) {
		w.processes = append(w.processes, process{name: group})
		t := Track{p, 0}
		w.meta("process_name", t, Arg{"name", group})
		w.meta("process_sort_index", t, Arg{"sort_index", p})
	}
	threads := &w.processes[p].threads
	for i, have := range *threads {
		if have == name {
			return Track{p, i}
		}
	}
	t := Track{p, len(*threads)}
	*threads = append(*threads, name)
	w.meta("thread_name", t, Arg{"name", name})
	w.meta("thread_sort_index", t, Arg{"sort_index", t.thread})
	return t
}

// Span writes something that took time.
func (w *Writer) Span(t Track, s Span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !finite(s.Duration) || s.Duration < 0 {
		w.fail(fmt.Errorf("trace: span %q: duration %v: want a finite number, zero or more", s.Name, s.Duration))
	}
	w.event("X", s.Name, s.Category, t, s.Start, func() {
		w.raw(`,"dur":`)
		w.micros(s.Duration)
		w.args(s.Args)
	})
}

// Instant writes something that took no time.
func (w *Writer) Instant(t Track, name string, at float64, args ...Arg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event("i", name, "", t, at, func() {
		w.raw(`,"s":"t"`)
		w.args(args)
	})
}

// Counter writes the value that a quantity of the track's group has from a time on.
func (w *Writer) Counter(t Track, name string, at, value float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !finite(value) {
		w.fail(fmt.Errorf("trace: counter %q: value %v: want a finite number", name, value))
	}
	w.event("C", name, "", t, at, func() { w.args([]Arg{{"value", value}}) })
}

// Flow draws an arrow from a span that is on one track at a time to one that is on another later.
func (w *Writer) Flow(name string, from Track, start float64, to Track, end float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flows++
	id := []byte(`,"id":`)
	id = strconv.AppendInt(id, int64(w.flows), 10)
	w.event("s", name, "flow", from, start, func() { w.raw(string(id)) })
	w.event("f", name, "flow", to, end, func() { w.raw(`,"bp":"e"` + string(id)) })
}

// Close ends the array and says what went wrong, if anything did. It does not close what is below.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.events == 0 {
		w.w.WriteString("[")
	}
	w.w.WriteString("\n]\n")
	w.fail(w.w.Flush())
	if w.err != nil {
		return w.err
	}
	w.err = fmt.Errorf("trace: written to after Close")
	return nil
}

// meta writes a fact about a track.
func (w *Writer) meta(name string, t Track, a Arg) {
	w.event("M", name, "", t, 0, func() { w.args([]Arg{a}) })
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// event writes what all events have; rest adds the rest.
func (w *Writer) event(phase, name, category string, t Track, at float64, rest func()) {
	if !finite(at) {
		w.fail(fmt.Errorf("trace: event %q: time %v: want a finite number", name, at))
	}
	if w.err != nil {
		return
	}
	w.line = append(w.line[:0], ",\n{\"ph\":\""...)
	if w.events == 0 {
		w.line = append(w.line[:0], "[\n{\"ph\":\""...)
	}
	w.events++
	w.raw(phase + `","pid":`)
	w.line = strconv.AppendInt(w.line, int64(t.process), 10)
	w.raw(`,"tid":`)
	w.line = strconv.AppendInt(w.line, int64(t.thread), 10)
	w.raw(`,"name":`)
	w.value(name)
	if category != "" {
		w.raw(`,"cat":`)
		w.value(category)
	}
	w.raw(`,"ts":`)
	w.micros(at)
	rest()
	w.raw("}")
	_, err := w.w.Write(w.line)
	w.fail(err)
}

func (w *Writer) raw(s string) { w.line = append(w.line, s...) }

// micros writes seconds as microseconds, to the nanosecond.
func (w *Writer) micros(seconds float64) {
	w.line = strconv.AppendFloat(w.line, math.Round(seconds*1e9)/1e3, 'f', -1, 64)
}

func (w *Writer) args(args []Arg) {
	if len(args) == 0 {
		return
	}
	w.raw(`,"args":{`)
	for i, a := range args {
		if i > 0 {
			w.raw(",")
		}
		w.value(a.Name)
		w.raw(":")
		w.value(a.Value)
	}
	w.raw("}")
}

// value writes a string, a number or a bool; whatever else it is given it writes as text, since a trace is
// for reading.
func (w *Writer) value(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, err = json.Marshal(fmt.Sprint(v))
	}
	w.fail(err)
	w.line = append(w.line, b...)
}
