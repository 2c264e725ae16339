package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/pass"
)

// TestPriceLoops: the file that GALLEY_CALIBRATION names is read, and one that is none is refused by name.
func TestPriceLoops(t *testing.T) {
	defer pass.SetCosts(pass.UsualCosts)
	path := filepath.Join(t.TempDir(), "here.yaml")
	t.Setenv("GALLEY_CALIBRATION", path)
	for text, want := range map[string]string{
		"": "GALLEY_CALIBRATION: ", "level: 7\n": "level 7: want 0 to 2", "level: 1\n": "says nothing of a host",
		"level: 1\nhost:\n  cores: 2\n  crowd: 1\n  start: 1e-6\n  rate: 5e10\n  stream: 1e10\n  meet: 1e-6\n" +
			"  message: 1e-6\n  wake: 1e-6\n  touch: 1e10\n": "",
	} {
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := priceLoops()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		os.Remove(path)
	}
}
