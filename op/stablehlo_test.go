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
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/op"
)

// TestStableHLO: programs and the text that XLA gets of them. A command is stablehlo with target=cuda,
// replicas=n, scores=n and donate=parameter:result in any number.
func TestStableHLO(t *testing.T) {
	golden.Run(t, "testdata/stablehlo/*.txt", func(t *testing.T, b golden.Block) string {
		f, err := ir.Parse(b.Input, op.Lookup)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Input)
		}
		text, err := lower.Module(f, moduleConfig(t, b.Args))
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

func moduleConfig(t *testing.T, args []string) lower.ModuleConfig {
	var c lower.ModuleConfig
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
		case "scores":
			c.Scores = number(value)
		case "donate":
			param, result, _ := strings.Cut(value, ":")
			c.Donate = append(c.Donate, lower.Donation{Param: number(param), Result: number(result)})
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
		if !slices.ContainsFunc(strings.Fields(string(text)),
			func(w string) bool { return w == o.Name() || strings.HasPrefix(w, o.Name()+"{") }) {
			t.Errorf("%s is not in its golden file", o.Name())
		}
	}
}

func TestModuleMistakes(t *testing.T) {
	parse := func(text string) *ir.Func {
		f, err := ir.Parse(text, op.Lookup)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := parse("func main(%0: f32[2], %1: f32[3]) {\n  %2 = exp %0\n  return %2\n}\n")
	shorter := parse("func main(%0: f32[2], %1: f32[3]) {\n  return %0\n}\n")
	other := parse("func main(%0: f32[2], %1: f32[3]) {\n  %2 = log %0\n  return %2\n}\n")
	uneven := parse("func main(%0: f32[1], %1: f32[3]) {\n  %2 = exp %0\n  return %2\n}\n")
	for _, c := range []struct {
		fs     []*ir.Func
		donate []lower.Donation
		want   string
	}{
		{[]*ir.Func{f}, []lower.Donation{{Param: 2}}, "parameter 2 to result 0: the program has 2 and 1"},
		{[]*ir.Func{f}, []lower.Donation{{Param: 0, Result: 1}}, "parameter 0 to result 1"},
		{[]*ir.Func{f}, []lower.Donation{{Param: 1, Result: 0}},
			"parameter 1 is f32[3] and result 0 is f32[2]: want one type"},
		{[]*ir.Func{f, shorter}, nil, "devices 0 and 1: 1 ops and 0"},
		{[]*ir.Func{f, f, other}, nil, "devices 0 and 2: exp and log at op 0"},
		{[]*ir.Func{f, uneven}, nil, "needs equal parts"},
	} {
		if _, err := lower.SPMD(c.fs, lower.ModuleConfig{Donate: c.donate}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
