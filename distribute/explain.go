package distribute

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/units"
)

// Communication is one transfer between devices that New inserted into a program.
type Communication = spmd.Communication

// Inserted returns all communication, in program order.
func (d *Program) Inserted() []Communication { return d.program.Communications() }

// Unasked returns the communication that no annotation asked for.
func (d *Program) Unasked() []Communication {
	return slices.DeleteFunc(d.Inserted(), func(c Communication) bool { return c.Asked })
}

// UnaskedError is returned for communication that no annotation asked for, if Strictness forbids it.
type UnaskedError struct{ List []Communication }

func (e *UnaskedError) Error() string {
	c := e.List[0]
	text := fmt.Sprintf("%s: %s: unasked communication: %s of %s over %s: %s: constrain the tensor, or allow it",
		c.Line, c.Op, c.Kind, c.Tensor, c.Axes, c.Reason)
	if n := len(e.List) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Total sums the communication of one kind along the same axes.
type Total struct {
	Kind    string  `json:"kind"`
	Axes    string  `json:"axes"`
	Count   int     `json:"count"`
	Bytes   float64 `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Explanation lists what a distributed program communicates, and why.
type Explanation struct {
	Program string `json:"program"`
	Mesh    string `json:"mesh"`
	Devices int    `json:"devices"`
	// Lines has the communication in program order; equal lines are merged with a count.
	Lines []Communication `json:"lines"`
	// Totals has the sums by kind and axes, the most expensive first; All is the grand total.
	Totals []Total `json:"totals"`
	All    Total   `json:"all"`
	// Unasked counts the communication that no annotation asked for.
	Unasked int `json:"unasked"`
}

// Explain lists what the devices exchange.
func (d *Program) Explain() *Explanation {
	e := &Explanation{Program: d.f.Name(), Mesh: d.config.Mesh.String(), Devices: len(d.program.Devices()),
		All: Total{Kind: "all"}}
	at, totals := map[Communication]int{}, map[[2]string]int{}
	for _, c := range d.Inserted() {
		if !c.Asked {
			e.Unasked++
		}
		key := shape(c)
		if i, ok := at[key]; ok {
			e.Lines[i].Count++
			e.Lines[i].Tensor = commonName(e.Lines[i].Tensor, c.Tensor)
		} else {
			at[key] = len(e.Lines)
			e.Lines = append(e.Lines, c)
		}
		kind := [2]string{c.Kind, c.Axes}
		i, ok := totals[kind]
		if !ok {
			i = len(e.Totals)
			totals[kind], e.Totals = i, append(e.Totals, Total{Kind: c.Kind, Axes: c.Axes})
		}
		e.Totals[i].add(c)
		e.All.add(c)
	}
	slices.SortStableFunc(e.Totals, func(a, b Total) int {
		switch {
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return 0
	})
	return e
}

func (t *Total) add(c Communication) {
	t.Count += c.Count
	t.Bytes += c.Bytes * float64(c.Count)
	t.Seconds += c.Seconds * float64(c.Count)
}

// shape returns the communication without the name of its parameter: what is the same in every layer.
func shape(c Communication) Communication {
	c.Tensor, _, _ = strings.Cut(c.Tensor, " ")
	return c
}

// commonName puts a * where the names of two tensors differ.
func commonName(a, b string) string {
	if a == b {
		return a
	}
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	m := 0
	for m < min(len(a), len(b))-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	return strings.ReplaceAll(a[:n]+"*"+a[len(a)-m:], "**", "*")
}

// Write prints the explanation as tables.
func (e *Explanation) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s: %d devices\n", e.Program, e.Mesh, e.Devices)
	if e.All.Count == 0 {
		_, err := fmt.Fprintln(w, "no communication")
		return err
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	writeLines(t, e.Lines)
	fmt.Fprintln(t)
	fmt.Fprintln(t, "TOTAL\tKIND\tAXES\tTIMES\tBYTES\tTIME")
	for _, s := range e.Totals {
		fmt.Fprintf(t, "\t%s\t%s\t%d\t%s\t%s\n", s.Kind, axesText(s.Axes), s.Count, units.Bytes(s.Bytes),
			units.Seconds(s.Seconds))
	}
	fmt.Fprintf(t, "\tall\t\t%d\t%s\t%s\n", e.All.Count, units.Bytes(e.All.Bytes), units.Seconds(e.All.Seconds))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d unasked\n", e.Unasked, e.All.Count)
	return err
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// axesText keeps a cell from being empty: what goes from mesh to mesh is along no axis.
func axesText(axes string) string {
	if axes == "" {
		return "-"
	}
	return axes
}

// String returns the program with the sharding of every value: %2 = matmul %0 %1 : f32[64,512]@[dp,_] #
// model.go:42.
func (d *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "func %s on %s(", d.f.Name(), d.config.Mesh)
	for i, p := range d.f.Params() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %%%d", p.ID())
		if p.Name() != "" {
			fmt.Fprintf(&b, " %q", p.Name())
		}
		fmt.Fprintf(&b, ": %s", d.placed(p))
	}
	b.WriteString(") {\n")
	for _, n := range d.f.Nodes() {
		var names, types, in []string
		for _, v := range n.Out() {
			names, types = append(names, fmt.Sprintf("%%%d", v.ID())), append(types, d.placed(v))
		}
		for _, v := range n.In() {
			in = append(in, fmt.Sprintf(" %%%d", v.ID()))
		}
		fmt.Fprintf(&b, "  %s = %s%s : %s", strings.Join(names, ", "), ir.FormatOp(n.Op()), strings.Join(in, ""),
			strings.Join(types, ", "))
		if n.Pos() != "" && n.Pos() != "-" {
			fmt.Fprintf(&b, "  # %s", n.Pos())
		}
		b.WriteByte('\n')
	}
	b.WriteString("  return")
	for i, v := range d.f.Results() {
		_, spec := d.Result(i)
		fmt.Fprintf(&b, " %%%d%s", v.ID(), spec)
	}
	b.WriteString("\n}\n")
	return b.String()
}

// placed returns a value's type and its layout, with its mesh where that is not the program's.
func (d *Program) placed(v *ir.Value) string {
	text := v.Type().String() + d.inferred.Specs[v.ID()].String()
	if m := d.inferred.Meshes[v.ID()]; !m.Equal(d.config.Mesh) {
		text += " on " + m.String()
	}
	return text
}
