package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
)

type event struct {
	Ph, Name, Cat string
	Pid, Tid      int
	Ts, Dur       float64
	Args          map[string]any
	ID            int
	Bp, S         string
}

func decode(t *testing.T, text []byte) []event {
	t.Helper()
	var events []event
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return events
}

func TestEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := NewWriter(&b).Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(decode(t, b.Bytes())); n != 0 {
		t.Errorf("%d events, want none", n)
	}
}

func TestEvents(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	x, y := w.Track("rank 0", "compute"), w.Track("rank 1", "compute")
	if again := w.Track("rank 0", "compute"); again != x || x == y {
		t.Errorf("tracks %v, %v and again %v", x, y, again)
	}
	w.Span(x, Span{Name: "0F0 \"\n\xff", Category: "forward", Start: 1.5e-3, Duration: 2e-6,
		Args: []Arg{{"micro", 3}, {"bad", math.NaN()}, {"ok", true}}})
	w.Instant(y, "step", 2, Arg{"loss", 1.5})
	w.Counter(x, "memory", 1e-9, 12)
	w.Flow("0SF0", x, 1, y, 2)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	events := decode(t, b.Bytes())
	phases := ""
	for _, e := range events {
		phases += e.Ph
	}
	if phases != "MMMMMMMMXiCsf" {
		t.Fatalf("phases %s", phases)
	}
	if e := events[8]; e.Ts != 1500 || e.Dur != 2 || e.Name != "0F0 \"\n\ufffd" || e.Args["micro"] != 3.0 ||
		e.Args["bad"] != "NaN" || e.Cat != "forward" {
		t.Errorf("span %+v", e)
	}
	if e := events[9]; e.Pid != 1 || e.S != "t" || e.Ts != 2e6 || e.Args["loss"] != 1.5 {
		t.Errorf("instant %+v", e)
	}
	if e := events[10]; e.Ts != 0.001 || e.Args["value"] != 12.0 {
		t.Errorf("counter %+v", e)
	}
	if a, z := events[11], events[12]; a.ID != z.ID || z.Bp != "e" || a.Pid != 0 || z.Pid != 1 {
		t.Errorf("flow %+v %+v", a, z)
	}
}

func TestWriterErrors(t *testing.T) {
	for want, f := range map[string]func(w *Writer, t Track){
		"duration -1":  func(w *Writer, t Track) { w.Span(t, Span{Name: "a", Duration: -1}) },
		"duration NaN": func(w *Writer, t Track) { w.Span(t, Span{Name: "a", Duration: math.NaN()}) },
		"time +Inf":    func(w *Writer, t Track) { w.Instant(t, "a", math.Inf(1)) },
		"value NaN":    func(w *Writer, t Track) { w.Counter(t, "a", 0, math.NaN()) },
		"after Close":  func(w *Writer, t Track) { w.Close() },
		"disk is full": func(w *Writer, t Track) {
			for range 1000 {
				w.Instant(t, strings.Repeat("x", 100), 0)
			}
		},
	} {
		w := NewWriter(&full{left: 5000})
		f(w, w.Track("a", "b"))
		if err := w.Close(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// full is a disk with little space.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk is full")
	}
	return len(p), nil
}

func TestConcurrent(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			track := w.Track(fmt.Sprint("rank ", g), "compute")
			for i := range 100 {
				w.Span(track, Span{Name: "x", Start: float64(i), Duration: 1})
			}
		})
	}
	all.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(decode(t, b.Bytes())); n != 8*104 {
		t.Errorf("%d events, want %d", n, 8*104)
	}
}

func ExampleWriter() {
	w := NewWriter(os.Stdout)
	track := w.Track("rank 0", "compute")
	w.Span(track, Span{Name: "0F0", Start: 0.001, Duration: 0.002})
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// [
	// {"ph":"M","pid":0,"tid":0,"name":"process_name","ts":0,"args":{"name":"rank 0"}},
	// {"ph":"M","pid":0,"tid":0,"name":"process_sort_index","ts":0,"args":{"sort_index":0}},
	// {"ph":"M","pid":0,"tid":0,"name":"thread_name","ts":0,"args":{"name":"compute"}},
	// {"ph":"M","pid":0,"tid":0,"name":"thread_sort_index","ts":0,"args":{"sort_index":0}},
	// {"ph":"X","pid":0,"tid":0,"name":"0F0","ts":1000,"dur":2000}
	// ]
}
