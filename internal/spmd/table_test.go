package spmd_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// table is the page that shows what resharding costs; -update, which package golden defines, rewrites it.
const table = "../../docs/reshard.md"

const tableHead = `# What resharding costs

Every way from one Spec to another is found by a search over moves; this table is written and checked by a
test of ` + "`internal/spmd`" + `. *Bytes* is what the busiest device sends, as a part of S, the bytes of the whole
tensor, an f32[9600,9600]. *Least* is the most that any device lacks of what it is to hold: no way can do with
less. Where sums are pending it is (n−1)/n of S for a cut and twice that for copies, what the best known
algorithms take.

Slices, masks and pads send nothing. Axes that neither Spec names stay out of it.
`

// pairs2D is the common changes on two axes: what data, tensor, sequence and fully sharded parallelism ask
// for.
var pairs2D = [][2]string{
	{"@[_,_]", "@[x,y]"}, {"@[x,y]", "@[_,_]"}, {"@[x.y,_]", "@[_,_]"}, {"@[x.y,_]", "@[x,_]"}, {"@[x,_]",
		"@[x.y,_]"},
	{"@[x,y]", "@[x,_]"}, {"@[x,_]", "@[x,y]"}, {"@[x.y,_]", "@[x,y]"}, {"@[x,y]", "@[x.y,_]"}, {"@[x.y,_]",
		"@[_,x.y]"},
	{"@[x,_]", "@[_,x]"}, {"@[x,y]", "@[_,x.y]"}, {"@[x.y,_]", "@[y.x,_]"}, {"@[x,_]", "@[_,y]"}, {"@[x,_]",
		"@[y,_]"}, {"@[x,y]", "@[y,x]"},
	{"@[x,_]+{y}", "@[x,_]"}, {"@[x,_]+{y}", "@[x,y]"}, {"@[x,_]+{y}", "@[x.y,_]"}, {"@[_,_]+{x,y}", "@[_,_]"},
	{"@[_,_]+{x,y}", "@[x.y,_]"}, {"@[_,_]+{x,y}", "@[x,_]+{y}"}, {"@[_,x]+{y}", "@[x,_]"}, {"@[x,y]",
		"@[x,_]+{y}"},
}

// TestTable writes the page and compares; every 1-D pair and every common 2-D pair takes the least bytes.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(tableHead)
	b.WriteString("\n## One axis: mesh x=4, all pairs\n\n")
	m := parseMesh(t, "x=4")
	var pairs [][2]string
	for _, from := range allSpecs(m, 2, mesh.Sum) {
		for _, to := range allSpecs(m, 2, mesh.Sum) {
			if !from.Equal(to) {
				pairs = append(pairs, [2]string{from.String(), to.String()})
			}
		}
	}
	rows(t, &b, m, pairs)
	b.WriteString("\n## Two axes: mesh x=2,y=4, common pairs\n\n")
	rows(t, &b, parseMesh(t, "x=2,y=4"), pairs2D)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(table, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(table)
	if err != nil || string(have) != b.String() {
		t.Errorf("%s is out of date (go test -update): want\n%s\n%v", table, b.String(), err)
	}
}

func rows(t *testing.T, b *strings.Builder, m *mesh.Mesh, pairs [][2]string) {
	typ := ir.Type{DType: array.F32, Shape: array.Shape{9600, 9600}}
	fmt.Fprintf(b, "| from | to | moves | bytes | least |\n|---|---|---|---|---|\n")
	for _, p := range pairs {
		from, to := parseSpec(t, p[0]), parseSpec(t, p[1])
		moves, cost, err := spmd.Reshard(m, typ, from, to)
		if err != nil {
			t.Fatal(err)
		}
		least, known := leastBytes(t, m, typ, from, to)
		words := make([]string, len(moves))
		for i, x := range moves {
			words[i] = x.String()
		}
		bound := "not known"
		if known {
			bound = fmt.Sprintf("%.4f", least/float64(typ.Bytes()))
			if cost.Bytes > least*1.0001 {
				t.Errorf("%s to %s on %s: %v: %.0f bytes, want %.0f", from, to, m, moves, cost.Bytes, least)
			}
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %.4f | %s |\n", from, to, strings.Join(words, "; "),
			cost.Bytes/float64(typ.Bytes()), bound)
	}
}

// leastBytes returns a bound that no way can beat, where one is known.
func leastBytes(t *testing.T, m *mesh.Mesh, typ ir.Type, from, to mesh.Spec) (float64, bool) {
	if len(to.Partial) > 0 && len(from.Partial) == 0 {
		return 0, to.With().Equal(from.With()) || from.IsWhole() || m.NumAxes() == 1
	}
	if len(from.Partial) > 0 {
		return leastReduce(m, typ, from, to)
	}
	before, err := from.Layout(m, typ.Shape)
	if err != nil {
		t.Fatal(err)
	}
	after, err := to.Layout(m, typ.Shape)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for id, want := range after.Boxes() {
		have, _ := before.Box(id)
		lack := want.Len()
		if both, ok := want.Intersect(have); ok {
			lack -= both.Len()
		}
		most = max(most, lack)
	}
	return float64(most * typ.DType.Size()), true
}

// leastReduce returns the bound for sums that are combined where the tensor is, into a cut or into copies.
func leastReduce(m *mesh.Mesh, typ ir.Type, from, to mesh.Spec) (float64, bool) {
	held := float64(typ.Bytes())
	for _, axes := range from.Dims {
		held /= float64(m.Count(axes))
	}
	n := 1
	for _, p := range from.Partial {
		if len(to.Partial) == 0 {
			n *= m.Extent(p.Sub)
		}
	}
	once := held * float64(n-1) / float64(n)
	switch {
	case len(to.Partial) > 0:
		return 0, false
	case to.Equal(from.With()):
		return 2 * once, true
	case len(to.Used()) == len(from.Used()) && m.HasPrefix(to.Dims[0], from.Dims[0]) &&
		m.HasPrefix(to.Dims[1], from.Dims[1]):
		return once, true
	}
	return 0, false
}
