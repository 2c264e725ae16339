package spmd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestGolden runs the scripts. A block's command line is partition MESH, with strict after it where nothing
// unasked may be sent; its input is lines of values and Specs, then the program. Values without a Spec are
// whole.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", func(t *testing.T, b golden.Block) string {
		m, err := mesh.Parse(b.Args[0])
		if err != nil {
			return err.Error()
		}
		specText, program, _ := strings.Cut(b.Input, "func ")
		f, err := ir.Parse("func "+program, op.Lookup)
		if err != nil {
			return err.Error()
		}
		c := spmd.Config{}
		if len(b.Args) > 1 {
			c.Strict = spmd.Forbid
		}
		p, err := spmd.Partition(f, specsFrom(t, f, specText), m, c)
		if err != nil {
			return err.Error()
		}
		return printProgram(p)
	})
}

func specsFrom(t *testing.T, f *ir.Func, text string) []mesh.Spec {
	specs := make([]mesh.Spec, f.NumValues())
	for _, v := range values(f) {
		specs[v.ID()] = mesh.Whole(len(v.Shape()))
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var id int
		var spec string
		if _, err := fmt.Sscanf(line, "%%%d %s", &id, &spec); err == nil {
			specs[id] = parseSpec(t, spec)
		}
	}
	return specs
}

// printProgram returns the communications, then each local program with the devices that run it.
func printProgram(p *spmd.Program) string {
	var b strings.Builder
	for _, x := range p.Inserted() {
		fmt.Fprintf(&b, "%s\n", x)
	}
	classes, err := p.Classes()
	if err != nil {
		return err.Error()
	}
	for _, c := range classes {
		f, err := p.Local(c[0])
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "devices %v\n%s", c, f)
	}
	return strings.TrimRight(b.String(), "\n")
}
