package pass

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Why returns a line for each loop: its ops with their source lines, its size, the predicted bytes and
// microseconds on one core with and without it, and how it runs; then a line for each value that two ops do
// not share in a loop, with the reason.
func (g *Grouping) Why() string {
	var b strings.Builder
	for i := range g.nodes {
		if u := g.unit[i]; u.nodes[0] == i && u.plan != nil {
			fmt.Fprintln(&b, g.whyLoop(u))
		}
	}
	for _, r := range g.refused {
		from, to := g.unit[g.at[r.value.Node()]], g.unit[g.at[r.user]]
		if from == to && from.plan != nil {
			continue // they were fused later
		}
		reason := r.reason
		if from.kept != "" && to.kept != "" {
			reason = from.kept
		}
		fmt.Fprintf(&b, "%s and %s stay apart: %s\n", named(r.value.Node()), named(r.user), reason)
	}
	return b.String()
}

// Totals returns a summary line: the number of ops and loops, the time taken, and the bytes of
// code.
func (g *Grouping) Totals() string {
	loops, size := g.Sizes()
	return fmt.Sprintf("%d ops, %d loops, made in %.1f ms; %s of code\n", len(g.nodes), loops,
		float64(g.took.Microseconds())/1e3, bytesText(float64(size)))
}

// Sizes returns the number of loops, and the bytes of their code.
func (g *Grouping) Sizes() (loops, code int) {
	seen := map[string]bool{}
	for _, n := range g.out.Nodes() {
		body, ok := op.FusedBody(n.Op())
		if !ok {
			continue
		}
		loops++
		if text := body.String(); !seen[text] { // identical layers share their code
			seen[text], code = true, code+op.FusedSize(n.Op())
		}
	}
	return loops, code
}

func named(n *ir.Node) string {
	if n.Pos() == "" {
		return n.Op().Name()
	}
	return fmt.Sprintf("%s (%s)", n.Op().Name(), n.Pos())
}

// whyLoop returns the line of a loop.
func (g *Grouping) whyLoop(u *unit) string {
	out := g.escapes(u)
	body, in, err := g.body(u, out)
	if err != nil {
		return err.Error()
	}
	var ops []string
	for _, i := range u.nodes {
		ops = append(ops, named(g.nodes[i]))
	}
	c := g.costOf(u, body, in)
	again := ""
	if n := len(u.again); n > 0 {
		again = fmt.Sprintf(", %d computed again", n)
	}
	return fmt.Sprintf(
		"loop of %s: %d rows of %d, %d phase(s)%s; %s in place of %s, %.0f µs in place of %.0f; %s",
		strings.Join(ops, ", "),
		u.plan.Rows,
		u.plan.Cols,
		u.plan.Phases,
		again,
		bytesText(c.bytes),
		bytesText(c.apart),
		c.time,
		c.apartTime,
		op.FusedHow(op.Fused(body)),
	)
}

// escapes returns the values of a unit that others read.
func (g *Grouping) escapes(u *unit) []*ir.Value {
	w := &groupWriter{g: g}
	w.escaping()
	return w.out[u]
}

// loopCost is the bytes moved and microseconds, as a loop and op by op.
type loopCost struct{ bytes, apart, time, apartTime float64 }

func (g *Grouping) costOf(u *unit, body *ir.Func, in []*ir.Value) loopCost {
	var c loopCost
	price := g.costs.perByte(4 * u.plan.Rows * u.plan.Cols)
	for _, v := range in {
		c.bytes += float64(v.Type().Bytes())
	}
	for _, v := range body.Results() {
		c.bytes += float64(v.Type().Bytes())
	}
	work := 0.0
	for _, i := range u.nodes {
		n, ln := g.nodes[i], g.loops[i]
		w := n.Op().(op.Op).Work(ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
		if ln.Kind() == op.LoopSame {
			continue
		}
		c.apart += w.Bytes
		work += g.costs.instructions(ln, ln.Size())
	}
	c.time = (c.bytes*price + work) / 1e3
	c.apartTime = (c.apart*price + work) / 1e3
	return c
}

func bytesText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", n/1e3)
	}
	return fmt.Sprintf("%.0f bytes", n)
}

// FormatLoops prints a program with the bodies of its loops below them.
func FormatLoops(f *ir.Func) string {
	var b strings.Builder
	nodes := f.Nodes()
	for line := range strings.Lines(f.String()) {
		node := strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "  return")
		if !node || len(nodes) == 0 {
			b.WriteString(line)
			continue
		}
		n := nodes[0]
		nodes = nodes[1:]
		body, ok := op.FusedBody(n.Op())
		if !ok {
			b.WriteString(line)
			continue
		}
		b.WriteString(strings.Replace(line, ir.FormatOp(n.Op()), n.Op().Name(), 1))
		for inner := range strings.Lines(body.String()) {
			b.WriteString("      " + inner)
		}
	}
	return b.String()
}
