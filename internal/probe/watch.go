package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley"
)

// Terms are the times of one process in a step, in seconds of one of its devices: computation, and
// communication including waiting; and the time of the whole step.
type Terms struct {
	Compute, Exchange, Step float64
}

// Watch sums up the spans of this process's devices. Span may be called from many goroutines.
type Watch struct {
	mu                sync.Mutex
	devices           map[int]bool
	compute, exchange float64
}

// Span adds a span. Collectives are part of the work that contains them.
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

// Take returns the terms of the given number of steps since the last call, which took the given seconds
// together.
func (w *Watch) Take(steps int, seconds float64) Terms {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := float64(max(1, steps))
	each := n * float64(max(1, len(w.devices)))
	t := Terms{max(0, w.compute) / each, w.exchange / each, seconds / n}
	w.compute, w.exchange = 0, 0
	return t
}

// String prints the terms as text that ParseTerms parses.
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

// Slow is a process that is slower than others at the same work, by a factor.
type Slow struct {
	Process int
	Times   float64
}

// Judge finds processes that are slow, and links that have become slow.
type Judge struct {
	// Work is the operations of each process in a step, on all its devices.
	Work []float64
	// Patience is the number of consecutive windows in which a process must be slow to be named; 0 means 2.
	Patience int
	behind   []int
	named    []bool
	links    int
	usual    float64 // seconds of communication without waiting, in the first windows
	windows  int
}

// behindFrom is the factor relative to the others' pace from which a process is slow: equal cores differ by a
// fifth on shared machines.
const behindFrom = 1.35

// See adds the terms of a window, of all processes, and returns those that have become stragglers with it.
func (j *Judge) See(window []Terms) (slow []Slow) {
	if j.behind == nil {
		j.behind, j.named = make([]int, len(window)), make([]bool, len(window))
	}
	for i, times := range j.Paces(window) {
		if times < behindFrom {
			j.behind[i] = 0
			if times < (1+behindFrom)/2 {
				j.named[i] = false // it is fast again
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

// Know sets the factors by which processes are known to be slow: they are not named again until they
// recover.
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

// Paces returns the time of each process for its work relative to the median of the others.
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

// Uneven reports whether a process is slow in a window: then others wait for it, and communication times are
// meaningless.
func (j *Judge) Uneven(window []Terms) bool {
	return slices.ContainsFunc(j.Paces(window), func(x float64) bool { return x >= behindFrom })
}

// slowLinks is the factor relative to the first windows from which communication is slow.
const slowLinks = 2

// Links returns the factor by which the communication of the process that waits least has become slower than
// at first, if it is slow and matters; 0 otherwise.
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
