package op_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestStableHLO: programs and the text that XLA gets of them. A command is stablehlo with target=cuda, replicas=n, partitions=n, scores=n
// and donate=parameter:result in any number.
func TestStableHLO(t *testing.T) {
	golden.Run(t, "testdata/stablehlo/*.txt", func(t *testing.T, b golden.Block) string {
		f, err := ir.Parse(b.Input, op.Lookup)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Input)
		}
		text, err := op.Module(f, moduleConfig(t, b.Args))
		if err != nil {
			return err.Error()
		}
		p, err := hlo.Parse(text)
		if err == nil {
			err = p.Verify()
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		return text
	})
}

func moduleConfig(t *testing.T, args []string) op.ModuleConfig {
	var c op.ModuleConfig
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "target":
			c.Target = hlo.Target(value)
		case "replicas":
			c.Replicas = number(value)
		case "partitions":
			c.Partitions = number(value)
		case "scores":
			c.Scores = number(value)
		case "donate":
			param, result, _ := strings.Cut(value, ":")
			c.Donate = append(c.Donate, op.Donation{Param: number(param), Result: number(result)})
		default:
			t.Fatalf("unknown setting %q", a)
		}
	}
	return c
}

// TestStableHLOOfAll: every op has a golden file of its own name with it.
func TestStableHLOOfAll(t *testing.T) {
	for _, o := range op.All() {
		text, err := os.ReadFile(filepath.Join("testdata/stablehlo", o.Name()+".txt"))
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.ContainsFunc(strings.Fields(string(text)), func(w string) bool { return w == o.Name() || strings.HasPrefix(w, o.Name()+"{") }) {
			t.Errorf("%s is not in its golden file", o.Name())
		}
	}
}
