package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley"
)

// Terms are what one process does in a step, in seconds of one of its devices: computing, and exchanging with
// others, waiting for them included; and what a step takes as a whole.
type Terms struct {
	Compute, Exchange, Step float64
}

// Watch adds up what the devices of this process do. It is told of spans from many goroutines.
type Watch struct {
	mu                sync.Mutex
	devices           map[int]bool
	compute, exchange float64
}

// Span adds a span. Collectives are within the work that they are part of.
func (w *Watch) Span(s galley.Span) {
	took := s.End.Sub(s.Start).Seconds()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.devices == nil {
		w.devices = map[int]bool{}
	}
	w.devices[s.Device] = true
	switch s.Kind {
	case galley.SpanWork:
		w.compute += took
	case galley.SpanExchange:
		w.compute -= took
		w.exchange += took
	case galley.SpanMessage:
		w.exchange += took
	}
}

// Take returns the terms of so many steps since it was last called, which took so many seconds together.
func (w *Watch) Take(steps int, seconds float64) Terms {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := float64(max(1, steps))
	each := n * float64(max(1, len(w.devices)))
	t := Terms{max(0, w.compute) / each, w.exchange / each, seconds / n}
	w.compute, w.exchange = 0, 0
	return t
}

// String returns the terms as text, and ParseTerms reads it.
func (t Terms) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// ParseTerms reads the terms of all processes.
func ParseTerms(texts []string) ([]Terms, error) {
	list := make([]Terms, len(texts))
	for i, s := range texts {
		if err := json.Unmarshal([]byte(s), &list[i]); err != nil {
			return nil, fmt.Errorf("terms of process %d: %w", i, err)
		}
	}
	return list, nil
}

// Slow is a process that takes so many times as long as others for the same work.
type Slow struct {
	Process int
	Times   float64
}

// Judge names processes that stay behind, and says when links do.
type Judge struct {
	// Work is what each process computes in a step, in operations of all its devices.
	Work []float64
	// Patience is how many windows in a row somebody must be slow to be named; 0 is 2.
	Patience int
	behind   []int
	named    []bool
	links    int
	usual    float64 // seconds of exchange that nobody waited in, of the first windows
	windows  int
}

// behindFrom is from how many times the others' pace on a process is slow: cores that do the same differ by a
// fifth on shared machines.
const behindFrom = 1.35

// See takes the terms of a window, of all processes, and names those that have become stragglers with it.
func (j *Judge) See(window []Terms) (slow []Slow) {
	if j.behind == nil {
		j.behind, j.named = make([]int, len(window)), make([]bool, len(window))
	}
	for i, times := range j.Paces(window) {
		if times < behindFrom {
			j.behind[i] = 0
			if times < (1+behindFrom)/2 {
				j.named[i] = false // it has come back
			}
			continue
		}
		if j.behind[i]++; j.behind[i] >= j.patience() && !j.named[i] {
			j.named[i] = true
			slow = append(slow, Slow{i, times})
		}
	}
	return slow
}

// Know reports how many times as slow processes are known to be: they are not named again until they come
// back.
func (j *Judge) Know(slow []float64) {
	j.behind, j.named = make([]int, len(slow)), make([]bool, len(slow))
	for i, x := range slow {
		j.named[i] = x >= behindFrom
	}
}

func (j *Judge) patience() int {
	if j.Patience == 0 {
		return 2
	}
	return j.Patience
}

// Paces returns how many times as long as the middle one of the others each process takes for its work.
func (j *Judge) Paces(window []Terms) []float64 {
	pace := make([]float64, len(window))
	for i, t := range window {
		pace[i] = t.Compute
		if i < len(j.Work) && j.Work[i] > 0 {
			pace[i] /= j.Work[i]
		}
	}
	out := make([]float64, len(pace))
	for i := range pace {
		others := slices.Sorted(slices.Values(append(slices.Clone(pace[:i]), pace[i+1:]...)))
		out[i] = 1
		if n := len(others); n > 0 && others[(n-1)/2] > 0 {
			out[i] = pace[i] / others[(n-1)/2]
		}
	}
	return out
}

// Uneven reports whether a process is behind in a window: then others wait for it, and exchange says nothing.
func (j *Judge) Uneven(window []Terms) bool {
	return slices.ContainsFunc(j.Paces(window), func(x float64) bool { return x >= behindFrom })
}

// slowLinks is from how many times the first windows' time on exchanging is slow.
const slowLinks = 2

// Links returns how many times as long as at first the exchange takes of the process that waits least for
// others, if that has become slow and matters; else 0.
func (j *Judge) Links(window []Terms) float64 {
	least, step := window[0].Exchange, window[0].Step
	for _, t := range window {
		least, step = min(least, t.Exchange), max(step, t.Step)
	}
	if j.windows++; j.windows <= 2 {
		j.usual = max(j.usual, least)
		return 0
	}
	if j.usual <= 0 || least < slowLinks*j.usual || least < 0.05*step {
		j.links = 0
		return 0
	}
	if j.links++; j.links != j.patience() {
		return 0
	}
	return least / j.usual
}
