package step

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// String returns the plan's text, which Parse reads.
func (p *Plan) String() string {
	w := &printer{p: p, meshes: p.allMeshes()}
	w.head()
	for _, x := range p.Parts {
		w.part(x)
	}
	for i := range p.programs {
		w.program(i)
	}
	for _, t := range p.tapes {
		if t != nil {
			w.tape(t)
		}
	}
	return w.Builder.String()
}

// TapeText returns the text of the tape of one device and the programs that it runs.
func (p *Plan) TapeText(device int) string {
	w := &printer{p: p}
	for i := range p.programs {
		runs := func(in instruction) bool { return in.kind == call && in.program == i }
		if slices.ContainsFunc(p.tapes[device].code, runs) {
			w.program(i)
		}
	}
	w.tape(p.tapes[device])
	return w.Builder.String()
}

// Outline returns a copy of the plan without tapes and programs of single devices.
func (p *Plan) Outline() *Plan {
	out := *p
	out.programs, out.tapes = nil, nil
	return &out
}

// allMeshes returns the meshes of the ranks, then other meshes of weights and values.
func (p *Plan) allMeshes() []*mesh.Mesh {
	list := slices.Clone(p.Meshes)
	add := func(m *mesh.Mesh) {
		if m != nil && !slices.ContainsFunc(list, m.Equal) {
			list = append(list, m)
		}
	}
	for _, x := range p.Weights {
		for _, rank := range slices.Sorted(maps.Keys(x.On)) {
			add(x.On[rank].Mesh)
		}
	}
	for _, x := range p.Parts {
		for _, m := range x.Meshes {
			add(m)
		}
	}
	return list
}

type printer struct {
	strings.Builder
	p      *Plan
	meshes []*mesh.Mesh
}

func (w *printer) line(format string, args ...any) {
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

// head prints the part of the plan that all devices share.
func (w *printer) head() {
	p := w.p
	switch {
	case p.Backend:
		w.line("plan %s whole backend", p.Kind)
	case p.Whole:
		w.line("plan %s whole", p.Kind)
	case p.AsIs:
		w.line("plan %s as_is", p.Kind)
	default:
		w.line("plan %s", p.Kind)
	}
	for i, m := range w.meshes {
		w.line("mesh %d %s", i, m)
	}
	w.line("schedule")
	for text := range strings.Lines(p.Schedule.String()) {
		w.WriteString("  " + text)
	}
	w.line("%s", numbers("variants", p.Variant))
	for i, types := range p.Inputs {
		w.line("inputs %d%s", i, typesText(types))
	}
	for i, list := range p.Results {
		fmt.Fprintf(w, "results %d", i)
		for _, r := range list {
			fmt.Fprintf(w, " %s%s", r.Type, r.Spec)
		}
		w.line("")
	}
	w.line("scalars%s", typesText(p.Scalars))
	for _, x := range p.Weights {
		w.line("weight %q %s %s home %d%s%s slots%s", x.Name, x.Type, layoutsText(x.Layouts), x.Home,
			numbers(" copies", x.Copies), w.lays(x.On), typesText(x.Slots))
	}
	for i, x := range p.Stages {
		begin := ""
		if x.Begin != "" {
			begin = " begin " + strconv.Quote(x.Begin)
		}
		w.line("stage %d rank %d%s", i, x.Rank, begin)
	}
}

// layoutsText returns the text of a weight's layouts.
func layoutsText(l Layouts) string {
	return fmt.Sprintf("use %s rest %s sum %s slot %s", l.Use, l.Rest, l.Sum, l.Slot)
}

// lays returns the text of a weight's layouts on ranks that have their own.
func (w *printer) lays(on map[int]Layouts) (text string) {
	for _, rank := range slices.Sorted(maps.Keys(on)) {
		l := on[rank]
		at := rank
		if l.Mesh != nil {
			at = slices.IndexFunc(w.meshes, l.Mesh.Equal)
		}
		text += fmt.Sprintf(" on %d mesh %d %s", rank, at, layoutsText(l))
	}
	return text
}

// numbers returns a word followed by numbers. Without numbers it returns nothing if the word is optional,
// that is, begins with a blank.
func numbers(word string, list []int) string {
	if len(list) == 0 && strings.HasPrefix(word, " ") {
		return ""
	}
	for _, n := range list {
		word += " " + strconv.Itoa(n)
	}
	return word
}

func typesText(types []ir.Type) (text string) {
	for _, t := range types {
		text += " " + t.String()
	}
	return text
}

// program prints a program that runs on single devices.
func (w *printer) program(i int) {
	x := w.p.programs[i]
	w.line("program %d%s%s%s", i, numbers(" donates", x.donated), numbers(" spends", x.spent),
		offloadText(x.offloaded))
	w.WriteString(x.exe.Func().String())
}

// part prints a program of a stage with the layout of every value, and its communication.
func (w *printer) part(x *Part) {
	switch {
	case x.Stage < 0:
		w.line("part %s", whenWords[x.Stage])
	case x.First:
		w.line("part %d %s variant %d first", x.Stage, x.Kind, x.Variant)
	default:
		w.line("part %d %s variant %d", x.Stage, x.Kind, x.Variant)
	}
	home := w.home(x)
	w.WriteString(x.Func.Text(ir.Notes{
		Value: func(v *ir.Value) string {
			text := x.Specs[v.ID()].String()
			if at := slices.IndexFunc(w.meshes, x.Meshes[v.ID()].Equal); at != home {
				text += "/" + strconv.Itoa(at)
			}
			return text
		},
		Result: func(i int) string { return x.ResultSpecs[i].String() },
	}))
	for _, c := range x.Communications {
		asked := ""
		if c.Asked {
			asked = " asked"
		}
		w.line(
			"  exchange %s over %q of %q from %q to %q bytes %s seconds %s for %q at %q since %q%s",
			c.Kind,
			c.Axes,
			c.Tensor,
			c.From,
			c.To,
			float(c.Bytes),
			float(c.Seconds),
			c.Op,
			c.Line,
			c.Reason,
			asked,
		)
	}
}

// home returns the number of the mesh that values of a part are on unless the text says otherwise.
func (w *printer) home(x *Part) int {
	if x.Stage < 0 {
		return 0
	}
	return w.p.Stages[x.Stage].Rank
}

func float(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
