package pipeline

import (
	"fmt"

	"github.com/galley-ml/galley/internal/trace"
)

// fills holds the colours of F, B, I and W, which differ in hue and in lightness, so that everyone can tell
// them apart.
var fills = [Weight + 1]string{"#8ec5f0", "#f2a65a", "#f2d768", "#d3bdea"}

// about describes the kinds.
var about = [kinds]string{"forward", "backward", "input gradient", "weight gradient", "send", "receive",
	"send", "receive"}

// Trace writes the timeline as tracks of each rank: its computation, its messages, and its memory.
func (t *Timeline) Trace(w *trace.Writer) {
	compute := make([]trace.Track, len(t.Ranks))
	for r := range t.Ranks {
		compute[r] = w.Track(fmt.Sprintf("rank %d", r), "compute")
	}
	for r, spans := range t.Ranks {
		for i, s := range spans {
			track := compute[r]
			if i > 0 && spans[i-1].Joined {
				track = w.Track(fmt.Sprintf("rank %d", r), "compute, joined")
			}
			if s.Kind.Computes() || s.End > s.Start {
				w.Span(track, trace.Span{Name: act(s.Stage, s.Kind, s.Micro).String(), Category: about[s.Kind],
					Start: s.Start, Duration: s.End - s.Start,
					Args: []trace.Arg{{Name: "stage", Value: s.Stage}, {Name: "micro", Value: s.Micro}}})
			}
		}
		for _, m := range t.Memory(r) {
			w.Counter(compute[r], "activations (bytes)", m.Time, m.Bytes)
		}
	}
	for _, m := range t.Messages {
		track := w.Track(fmt.Sprintf("rank %d", m.From), fmt.Sprintf("to rank %d", m.To))
		name := act(m.Action.Stage, m.Action.Kind, m.Action.Micro).String()
		w.Span(track, trace.Span{Name: name, Category: "message", Start: m.Start, Duration: m.End - m.Start})
		w.Flow(name, track, m.Start, compute[m.To], m.End)
	}
}

// Grid returns the timeline as a picture: a row for each rank, the micro-batch in each box, and below it the
// memory of ranks.
func (t *Timeline) Grid() *trace.Grid {
	s := t.Schedule
	g := &trace.Grid{
		Title: fmt.Sprintf("%s: %d ranks, %d stages, %d micro-batches", title(s.Name), len(s.Ranks), s.Stages,
			s.Micros),
		Note: fmt.Sprintf("%s, of which ranks are idle %.1f%%", trace.Seconds(t.Makespan), 100*t.BubbleFraction()),
	}
	class := t.classes(g)
	chunk := chunks(s)
	held := 0.0
	for r, spans := range t.Ranks {
		row := trace.Row{Name: fmt.Sprintf("rank %d", r), Note: fmt.Sprintf("%.1f%% idle", 100*t.Bubble(r))}
		for i, x := range spans {
			if !x.Kind.Computes() {
				continue
			}
			b := trace.Box{Start: x.Start, End: x.End, Text: fmt.Sprint(x.Micro), Class: class[x.Kind][chunk[x.Stage]]}
			b.Tip = fmt.Sprintf("%s: %s of micro-batch %d in stage %d, %s from %s on", act(x.Stage, x.Kind, x.Micro),
				about[x.Kind], x.Micro, x.Stage,
				trace.Seconds(x.End-x.Start), trace.Seconds(x.Start))
			if x.Joined {
				b.Lane = trace.Upper
			} else if i > 0 && spans[i-1].Joined {
				b.Lane = trace.Lower
			}
			row.Boxes = append(row.Boxes, b)
		}
		g.Rows = append(g.Rows, row)
		held = max(held, t.PeakBytes[r])
	}
	if held > 0 {
		t.curves(g)
	}
	return g
}

func title(name string) string {
	if name == "" {
		return "schedule"
	}
	return name
}

func (t *Timeline) curves(g *trace.Grid) {
	g.CurveTitle = "Activations held"
	for r := range t.Ranks {
		c := trace.Curve{Name: fmt.Sprintf("rank %d", r)}
		for _, m := range t.Memory(r) {
			c.Points = append(c.Points, trace.Point{Time: m.Time, Value: m.Bytes})
		}
		g.Curves = append(g.Curves, c)
	}
}

// chunks returns for each stage the number of earlier ones on its rank.
func chunks(s *Schedule) []int {
	chunk, seen := make([]int, s.Stages), make([]int, len(s.Ranks))
	for i, r := range s.Place {
		chunk[i] = seen[r]
		seen[r]++
	}
	return chunk
}

// classes adds a class for each kind and chunk of the schedule; later chunks are paler.
func (t *Timeline) classes(g *trace.Grid) [Weight + 1][]int {
	var class [Weight + 1][]int
	var has [kinds]bool
	for _, spans := range t.Ranks {
		for _, x := range spans {
			has[x.Kind] = true
		}
	}
	n := t.Schedule.Chunks()
	for k := range class {
		class[k] = make([]int, n)
		for c := range n {
			class[k][c] = len(g.Classes)
			if !has[k] {
				continue
			}
			name, pale := about[k], 0.0
			if n > 1 {
				name, pale = fmt.Sprintf("%s, chunk %d", name, c), 0.65*float64(c)/float64(n-1)
			}
			g.Classes = append(g.Classes, trace.Class{Name: name, Fill: trace.Mix(fills[k], "#ffffff", pale)})
		}
	}
	return class
}
