package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/check"
)

func TestOps(t *testing.T) {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Ops(&out, "testdata", check.OpsConfig{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 0 || r.Passed() != 106 || !strings.HasSuffix(out.String(), "106 passed, 0 failed\n") {
		t.Error(out.String())
	}
}

// TestRandomOps is a sample of the random cases that testdata/record_ops.py records: dims of size 0 and 1,
// NaN and infinities, integers and truth values among them.
func TestRandomOps(t *testing.T) {
	notShort(t)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Ops(&out, filepath.Join("testdata", "random"), check.OpsConfig{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 0 || r.Passed() != 794 {
		t.Error(out.String())
	}
}

// TestMoreOps is cases of testdata/record_more_ops.py: activations, losses, windows, masks and index ops with
// their options.
func TestMoreOps(t *testing.T) {
	notShort(t)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Ops(&out, filepath.Join("testdata", "more"), check.OpsConfig{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 0 || r.Passed() != 476 {
		t.Error(out.String())
	}
}

func TestBurgers(t *testing.T) {
	notShort(t)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Burgers(&out, "testdata", d)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 0 || r.Passed() != 240 {
		t.Error(out.String())
	}
}

// TestModels repeats the recorded training of the reference models, where they are at hand.
func TestModels(t *testing.T) {
	notShort(t)
	root := filepath.Join("..", "..", "..", "shared", "fixtures")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the reference models are not beside the project")
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	for _, name := range []string{"llama", "qwen2", "gpt2", "mixtral"} {
		for label, mode := range map[string]galley.Mode{"static": galley.Static, "eager": galley.Eager} {
			t.Run(name+"/"+label, func(t *testing.T) {
				var out strings.Builder
				r, err := check.Model(&out, filepath.Join(root, name), check.ModelConfig{Device: d, Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				if r.Failed() != 0 || r.Passed() == 0 {
					t.Error(out.String())
				}
			})
		}
	}
}

// TestWrongIsFound: a check that cannot fail proves nothing. One number of the reference is changed.
func TestWrongIsFound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ops.json", "ops.safetensors"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "ops.safetensors" {
			b[len(b)-1] ^= 0x40
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Ops(&out, dir, check.OpsConfig{Device: d})
	if err == nil && r.Failed() == 0 {
		t.Errorf("a changed byte was not noticed: %s", out.String())
	}
}

func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ops.json", "ops.safetensors"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b[:len(b)/2], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	if _, err := check.Ops(&strings.Builder{}, dir, check.OpsConfig{Device: d}); err == nil ||
		!strings.Contains(err.Error(), "ops.json") {
		t.Errorf("got %v", err)
	}
}

// notShort skips a test in short mode, which is how the race detector runs: it is for tests that compare the
// numbers of op after op, which TestOps does, too.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: go test without -short compares all")
	}
}

// TestOpsOnBackend: the host behind the interface of chips passes what an accelerator has to pass, 16 bits
// included.
func TestOpsOnBackend(t *testing.T) {
	notShort(t)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := check.Ops(&out, "testdata", check.OpsConfig{Device: d, Backend: d.Backend()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 0 || r.Passed() != 106 {
		t.Error(out.String())
	}
}
