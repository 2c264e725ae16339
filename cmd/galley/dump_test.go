package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/step"
)

// TestDumpPlans holds what dump prints of a step on dp=2,tp=2,pp=2 to files, but for the numbers of source
// lines, and reads it back. go test -update rewrites them.
func TestDumpPlans(t *testing.T) {
	for _, after := range []string{"stage", "tape"} {
		text := galleyOutput(t, "dump", "--after="+after, "--mesh", "dp=2,tp=2,pp=2")
		golden.File(t, "testdata/"+after+".golden", sourceLine.ReplaceAllString(text, ".go"))
		p, err := step.Parse(text)
		if err != nil {
			t.Fatalf("--after=%s: %v", after, err)
		}
		if again := p.String(); again != text {
			t.Errorf("--after=%s: what was read prints otherwise", after)
		}
	}
}

// TestExplainPlan holds what explain lists of the same step.
func TestExplainPlan(t *testing.T) {
	text := galleyOutput(t, "explain", "--mesh", "dp=2,tp=2,pp=2", "--micro", "4", "--schedule", "zbh1")
	golden.File(t, "testdata/explain.golden", sourceColumn.ReplaceAllString(text, "$1.go "))
}

// sourceLine is a line's number behind its file, sourceColumn the same as the first cell of a table.
var (
	sourceLine   = regexp.MustCompile(`\.go:[0-9]+`)
	sourceColumn = regexp.MustCompile(`(?m)^([a-z_]+)\.go:[0-9]+ *`)
)

// galleyOutput returns what the command prints.
func galleyOutput(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("galley %v: %v", args, err)
	}
	return string(out)
}
