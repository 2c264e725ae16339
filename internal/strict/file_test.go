package strict_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/strict"
)

// TestReadFile: only regular files of bounded size are read; a pipe without a writer does not wait.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := strict.ReadFile(path, 5); err != nil || string(text) != "12345" {
		t.Errorf("got %q, %v", text, err)
	}
	for path, want := range map[string]string{path: "more than 4 bytes",
		dir: "got a directory, want a regular file", os.DevNull: "got a device", filepath.Join(dir,
			"b"): "no such file"} {
		if _, err := strict.ReadFile(path, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, shown := range map[string]string{"llama-3 8B": "llama-3 8B", "a\x1b[31mb": `"a\x1b[31mb"`,
		"a\u202eb": `"a\u202eb"`, "größe": "größe"} {
		if got := strict.Name(name); got != shown {
			t.Errorf("%q: got %s, want %s", name, got, shown)
		}
		if err := strict.CheckName("name", name); (err == nil) != (shown == name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := strict.Line("a\x1b[2J\nb\r"); got != "a\\x1b[2J\nb\\r" {
		t.Errorf("got %q", got)
	}
	if err := strict.CheckName("name", strings.Repeat("x", 300)); err == nil {
		t.Error("a long name passes")
	}
}
