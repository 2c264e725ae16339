package tapes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/strategy"
)

// TestLossScaleBelowOne: gradients that overflow at a scale of 1 are scaled down further.
func TestLossScaleBelowOne(t *testing.T) {
	l := newLossScale("f16")
	for range 20 {
		l = l.next(true)
	}
	if l.scale != 1.0/16 {
		t.Errorf("after 20 overflows from 2^16: got a scale of %v, want 1/16", l.scale)
	}
	for range 100 {
		l = l.next(true)
	}
	if !(l.scale > 0) {
		t.Errorf("the scale ends at %v", l.scale)
	}
}

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
