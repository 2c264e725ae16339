package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGolden: a checkpoint that version 1 wrote is read, bit for bit, and written again as the same bytes. It
// must stay so: if the format has to change, its version does, and this one is still read.
func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "v1")
	r := openGood(t, dir)
	if r.Meta().Step != 12 || len(r.Skipped()) > 0 {
		t.Fatalf("got step %d, skipped %v", r.Meta().Step, r.Skipped())
	}
	checkSample(t, r)
	again := t.TempDir()
	save(t, newKeeper(t, Config{Dir: again}), sample(12))
	for _, name := range names(t, filepath.Join(dir, "step-00000012")) {
		want := must(os.ReadFile(filepath.Join(dir, "step-00000012", name)))
		if got, err := os.ReadFile(filepath.Join(again, "step-00000012", name)); err != nil ||
			!bytes.Equal(got, want) {
			t.Errorf("%s: it is written otherwise: %v", name, err)
		}
	}
}
