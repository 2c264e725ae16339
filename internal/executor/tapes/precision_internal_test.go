package tapes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/strategy"
)

// TestOffloadMakesItsDirectory: the directory need not exist, and what cannot be one is refused.
func TestOffloadMakesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if _, err := offloadOf(strategy.Strategy{Offload: strategy.Offload{Optimizer: 1, Dir: dir}}); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		t.Errorf("no directory: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := offloadOf(strategy.Strategy{Offload: strategy.Offload{Optimizer: 1, Dir: file}}); err == nil ||
		!strings.Contains(err.Error(), "offload is") {
		t.Errorf("a file: got %v", err)
	}
}
