package check_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/internal/safetensors"
)

// FuzzOpsJSON: no text makes `check ops` panic or find a bug of Galley's own, and a mistake costs no memory.
func FuzzOpsJSON(f *testing.F) {
	for _, text := range opSeeds(f) {
		f.Add(text)
	}
	dir := f.TempDir()
	if err := safetensors.Write(filepath.Join(dir, "ops.safetensors"), smallTensors(), nil); err != nil {
		f.Fatal(err)
	}
	d := galley.CPU(galley.Config{Threads: 1})
	f.Cleanup(func() { d.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "ops.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if _, err := check.Ops(&out, dir, check.OpsConfig{Device: d}); err == nil &&
			strings.Contains(out.String(), "bug in galley") {
			t.Errorf("%s\n%s", text, out.String())
		}
	})
}

// smallTensors returns operands of a few shapes and dtypes, and results for some ops of them.
func smallTensors() []safetensors.Named {
	var list []safetensors.Named
	for name, shape := range map[string][]int{"s": {}, "v": {4}, "m": {3, 4}, "t": {2, 3, 4}, "q": {1, 2, 3, 4},
		"w": {2, 2, 3, 3}, "e": {0, 4}} {
		for suffix, dtype := range map[string]array.DType{"": array.F64, "i": array.I64, "b": array.Bool} {
			a := array.New(dtype, shape...)
			for i := range a.Len() {
				a.Set(i, float64(i%3))
			}
			list = append(list, safetensors.Named{Name: name + suffix, Array: a})
		}
	}
	return list
}

// opSeeds returns one case of each op that is recorded, with names of smallTensors, and some mistakes.
func opSeeds(f *testing.F) [][]byte {
	text, err := os.ReadFile(filepath.Join("testdata", "ops.json"))
	if err != nil {
		f.Fatal(err)
	}
	var cases []map[string]any
	if err := json.Unmarshal(text, &cases); err != nil {
		f.Fatal(err)
	}
	seen, list := map[any]bool{}, [][]byte{}
	for i, c := range cases {
		if seen[c["op"]] {
			continue
		}
		seen[c["op"]] = true
		for _, field := range []string{"inputs", "outputs"} {
			for k := range c[field].([]any) {
				c[field].([]any)[k] = []string{"m", "v", "t", "q", "mi"}[(i+k)%5]
			}
		}
		one, err := json.Marshal([]any{c})
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, one)
	}
	for _, text := range []string{``, `[{}]`, `[{"op": "add", "inputs": ["m"], "outputs": ["m"]}]`,
		`[{"op": "exp", "inputs": ["m"], "outputs": ["m"], "cotangents": [[3, "m"]], "grads": [[0, "m"]]}]`,
		`[{"op": "exp", "inputs": ["m"], "outputs": ["m"], "cotangents": [[0, "m"]], "grads": [[-1, "m"]]}]`,
		`[{"op": "exp", "inputs": ["m"], "outputs": ["m"], "cotangents": [[0]], "grads": [[0]]}]`,
		`[{"op": "expand", "attrs": {"shape": [1000000, 1000000, 4]}, "inputs": ["v"], "outputs": ["v"]}]`,
		`[{"op": "relu", "inputs": ["m"], "outputs": ["m"], "cotangents": [[0, "m"]], "grads": [[0, "m"]], "hvp": [["m", "m"], ["m", "m"]]}]`,
	} {
		list = append(list, []byte(text))
	}
	return list
}

// TestOpsMistakes: a case that speaks of what it does not have fails by itself, with what is wrong.
func TestOpsMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := safetensors.Write(filepath.Join(dir, "ops.safetensors"), smallTensors(), nil); err != nil {
		t.Fatal(err)
	}
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	for text, want := range map[string]string{
		`{"op": "add", "inputs": ["m"], "outputs": ["m"]}`:                                              "got 1 inputs, want 2",
		`{"op": "exp", "inputs": ["m"], "outputs": ["m"], "cotangents": [[3, "m"]]}`:                    "of output 3, of which there are 1",
		`{"op": "exp", "inputs": ["m"], "outputs": ["v"]}`:                                              "got shape [3,4], want [4]",
		`{"op": "expand", "attrs": {"shape": [9999999, 999999, 4]}, "inputs": ["v"], "outputs": ["v"]}`: "got shape",
		`{"op": "exp", "inputs": ["m"], "outputs": ["m"], "grads": [[0, "m"]]}`:                         "no cotangent",
	} {
		if err := os.WriteFile(filepath.Join(dir, "ops.json"), []byte("["+text+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		r, err := check.Ops(io.Writer(&out), dir, check.OpsConfig{Device: d})
		if err != nil || r.Failed() != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %v, %s, want %q", text, err, out.String(), want)
		}
	}
}
