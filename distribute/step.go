package distribute

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/units"
)

// StepExplanation lists what the devices of a training step communicate, stage by stage, and why.
type StepExplanation struct {
	Strategy string `json:"strategy"`
	Devices  int    `json:"devices"`
	// Micros is the number of micro-batches.
	Micros int `json:"micros"`
	// Stages has the pipeline stages, then the weight update.
	Stages []StageExplanation `json:"stages"`
	// Unasked counts, of All communications except messages between stages, those that no annotation asked
	// for.
	Unasked int `json:"unasked"`
	All     int `json:"all"`
}

// StageExplanation lists what one device of a stage communicates.
type StageExplanation struct {
	Name    string `json:"name"`
	Mesh    string `json:"mesh"`
	Devices string `json:"devices"`
	// Lines has collectives and messages in the order of their first occurrence; equal lines are merged with
	// a count.
	Lines []Communication `json:"lines"`
	// Totals has the sums by kind and axes; a message counts at its sender.
	Totals []Total `json:"totals"`
}

// Repeats says how to list communication that recurs in every layer.
type Repeats uint8

// List it once with a count, or every time.
const (
	Merged Repeats = iota
	Listed
)

// ExplainStep lists what the devices of a planned step communicate.
func ExplainStep(strategy string, p *step.Plan, r Repeats) *StepExplanation {
	e := &StepExplanation{Strategy: strategy, Devices: p.Devices(), Micros: len(p.Variant)}
	for i, s := range p.Stages {
		name := fmt.Sprintf("stage %d", i)
		if s.Begin != "" {
			name += " from " + s.Begin
		}
		m := p.Meshes[s.Rank]
		e.add(StageExplanation{Name: name, Mesh: m.String(), Devices: ranges(m.Devices())}, p.Exchanges(i), r)
	}
	var all []int
	for _, m := range p.Meshes {
		all = append(all, m.Devices()...)
	}
	e.add(StageExplanation{Name: "update", Devices: ranges(all)}, p.Exchanges(-1), r)
	return e
}

// add adds a stage with what it exchanges.
func (e *StepExplanation) add(s StageExplanation, list []Communication, r Repeats) {
	at := map[Communication]int{}
	for _, c := range list {
		s.total(c)
		if c.Kind != "send" && c.Kind != "receive" {
			e.All += c.Count
			if !c.Asked {
				e.Unasked += c.Count
			}
		}
		key := shape(c)
		key.Count = 0
		if i, ok := at[key]; ok && r == Merged {
			s.Lines[i].Count += c.Count
			s.Lines[i].Tensor = commonName(s.Lines[i].Tensor, c.Tensor)
			continue
		}
		at[key] = len(s.Lines)
		s.Lines = append(s.Lines, c)
	}
	e.Stages = append(e.Stages, s)
}

func (s *StageExplanation) total(c Communication) {
	if c.Kind == "receive" {
		return
	}
	i := slices.IndexFunc(s.Totals, func(t Total) bool { return t.Kind == c.Kind && t.Axes == c.Axes })
	if i < 0 {
		i = len(s.Totals)
		s.Totals = append(s.Totals, Total{Kind: c.Kind, Axes: c.Axes})
	}
	s.Totals[i].add(c)
}

// UnaskedLines returns the communication that no annotation asked for.
func (e *StepExplanation) UnaskedLines() (list []Communication) {
	for _, s := range e.Stages {
		for _, c := range s.Lines {
			if !c.Asked {
				list = append(list, c)
			}
		}
	}
	return list
}

// ranges returns numbers in a short form: 0-3 8.
func ranges(list []int) string {
	list = slices.Sorted(slices.Values(list))
	var words []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		word := strconv.Itoa(list[i])
		if j > i {
			word += "-" + strconv.Itoa(list[j])
		}
		words, i = append(words, word), j+1
	}
	return strings.Join(words, " ")
}

// Write prints the explanation as tables.
func (e *StepExplanation) Write(w io.Writer) error {
	fmt.Fprintf(w, "training step of %s: %d devices, %d micro-batches, %d stages\n", e.Strategy, e.Devices,
		e.Micros,
		len(e.Stages)-1)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range e.Stages {
		fmt.Fprintf(t, "\n%s: devices %s", s.Name, s.Devices)
		if s.Mesh != "" {
			fmt.Fprintf(t, ", mesh %s", s.Mesh)
		}
		fmt.Fprintln(t)
		if len(s.Lines) == 0 {
			fmt.Fprintln(t, "no communication")
			continue
		}
		writeLines(t, s.Lines)
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(t, "\nTOTAL\tKIND\tAXES\tTIMES\tBYTES\tTIME")
	for _, s := range e.Stages {
		name, _, _ := strings.Cut(s.Name, " from ")
		for _, x := range s.Totals {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", name, x.Kind, axesText(x.Axes), x.Count, units.Bytes(x.Bytes),
				units.Seconds(x.Seconds))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d unasked\n", e.Unasked, e.All)
	return err
}

// writeLines prints communications as rows.
func writeLines(w io.Writer, list []Communication) {
	fmt.Fprintln(w, "LINE\tKIND\tAXES\tTIMES\tBYTES\tTIME\tASKED\tTENSOR\tREASON")
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.Line, c.Kind, axesText(c.Axes), c.Count,
			units.Bytes(c.Bytes), units.Seconds(c.Seconds), yes(c.Asked), c.Tensor, c.Reason)
	}
}
