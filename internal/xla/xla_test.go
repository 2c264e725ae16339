package xla_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/xla"
)

// open returns the machine's accelerator; without one the test is skipped by name.
func open(t *testing.T) backend.Backend {
	t.Helper()
	b, err := xla.Open(xla.Config{})
	if err != nil {
		t.Skipf("no accelerator: %v", err)
	}
	return b
}

func TestConformance(t *testing.T) { backendtest.Run(t, open) }

// TestBadPlugins: what is no plugin, or one of another version, is an error that says so.
func TestBadPlugins(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	const api = `struct head { unsigned long size; void *x; unsigned long vsize; void *vx; int major, minor; } h = {4, 0, 4, 0, %M, %m};
struct head *GetPjrtApi(void) { return &h; }`
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none.so"), "no such file"},
		{"directory", dir, "is a directory"},
		{"text", text, "cannot be loaded"},
		{"no symbol", library(t, dir, "int x;"), "no function GetPjrtApi"},
		{"old", library(t, dir, strings.NewReplacer("%M", "0", "%m", "3").Replace(api)),
			"wrong version: got PJRT 0.3"},
		{"other", library(t, dir, strings.NewReplacer("%M", "2", "%m", "99").Replace(api)),
			"wrong version: got PJRT 2.99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.path == "" {
				t.Skip("no C compiler")
			}
			_, err := xla.Open(xla.Config{Plugin: c.path})
			if err == nil {
				t.Fatal("it opens")
			}
			if strings.Contains(err.Error(), "without cgo") {
				t.Skip("built without cgo")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, c.want)
			}
		})
	}
}

// library compiles C to a shared library; without a compiler it is nothing.
func library(t *testing.T, dir, source string) string {
	t.Helper()
	f, err := os.CreateTemp(dir, "*.c")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(source); err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSuffix(f.Name(), ".c") + ".so"
	if err := exec.Command("gcc", "-shared", "-fPIC", "-o", out, f.Name()).Run(); err != nil {
		return ""
	}
	return out
}

func TestFindHonoursEnvironment(t *testing.T) {
	t.Setenv("GALLEY_PLUGIN", "/nowhere/plugin.so")
	if found := xla.Find(); len(found) == 0 || found[0] != "/nowhere/plugin.so" {
		t.Errorf("got %v, want the variable's path first", found)
	}
	if _, err := xla.Open(xla.Config{}); err == nil || !strings.Contains(err.Error(), "/nowhere/plugin.so") &&
		!strings.Contains(err.Error(), "cgo") {
		t.Errorf("got %v, want an error that names the path", err)
	}
}
