package sharding_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/check/sharding"
)

const spmdFile = "testdata/spmd.json"

func runSpmd(t *testing.T, file string) (*report.Report, string) {
	t.Helper()
	var out bytes.Buffer
	r, err := sharding.Spmd(&out, file, sharding.SpmdConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// TestSpmd: what is recorded of a selection of rules and reshards holds here, or our answer moves no more.
func TestSpmd(t *testing.T) {
	r, out := runSpmd(t, spmdFile)
	if r.Failed() > 0 || r.Passed() < 150 {
		t.Errorf("%s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, "passed, 0 failed") {
		t.Errorf("last line: %q", last)
	}
	for _, family := range []string{"elementwise", "reduction", "contraction", "shape", "index",
		"norm/softmax/loss", "attention", "MoE", "convolution", "scan/order", "reshard", "end to end"} {
		if !strings.Contains(out, "\n"+family+" ") {
			t.Errorf("family %s is not in the table", family)
		}
	}
}

// TestSpmdFindsCorruption: an expectation that is wrong, of any kind, is found.
func TestSpmdFindsCorruption(t *testing.T) {
	data, err := os.ReadFile(spmdFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, from, to string }{
		{"matmul_fwd_01", `"dims_mapping":[1,-1],"partial":[0]`, `"dims_mapping":[1,-1],"partial":[]`},
		{"transpose_fwd_01", `"expect_outputs":[{"dims_mapping":[-1,1,-1,0]}]`,
			`"expect_outputs":[{"dims_mapping":[-1,0,-1,1]}]`},
		{"softmax_fwd_01", `"expect_inputs":[{"dims_mapping":[1,-1,-1]}]`,
			`"expect_inputs":[{"dims_mapping":[1,0,-1]}]`},
		{"reshard_003", `[3,7]`, `[2,7]`},
		{"reshard_010", `"zeros"`, `"global"`},
		{"e2e_03", `[[1,2],null,null]`, `[[0,1],null,null]`},
	} {
		var hit bool
		lines := strings.Split(string(data), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, `{"id":"`+c.id+`"`) {
				lines[i], hit = strings.Replace(line, c.from, c.to, 1), strings.Contains(line, c.from)
			}
		}
		if !hit {
			t.Errorf("%s: no %s in it", c.id, c.from)
			continue
		}
		bad := []byte(strings.Join(lines, "\n"))
		if !json.Valid(bad) {
			t.Fatalf("%s: not JSON any more", c.id)
		}
		file := filepath.Join(t.TempDir(), "spmd.json")
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, out := runSpmd(t, file); r.Failed() != 1 || !strings.Contains(out, "FAIL    "+c.id+": ") {
			t.Errorf("%s: corruption not found: %d failed", c.id, r.Failed())
		}
	}
}

// TestSpmdMistakes: a file that is none is an error that names it.
func TestSpmdMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(t.TempDir(), "none.json")} {
		if _, err := sharding.Spmd(&bytes.Buffer{}, path, sharding.SpmdConfig{}); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("error %v: want one that names %s", err, path)
		}
	}
}
