package worker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClocks: nothing in the packages of elastic jobs compares times of day, which jump. Go's times have a
// reading of a steady clock beside it, which these calls drop; what people read is in UTC.
func TestClocks(t *testing.T) {
	drops := regexp.MustCompile(`\.(Unix|UnixMilli|UnixMicro|UnixNano|Truncate|Local)\(|\.Round\(0\)|time\.Unix\(`)
	shown := map[string]bool{"events.go": true, "reports.go": true}
	n := 0
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		other := strings.HasSuffix(path, "clock_other.go") // of systems without a steady clock of all processes
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || other {
			return err
		}
		text, err := os.ReadFile(path)
		n++
		if m := drops.Find(text); m != nil {
			t.Errorf("%s: %s drops the steady reading of a time", path, m)
		}
		if strings.Contains(string(text), "UTC()") && !shown[filepath.Base(path)] {
			t.Errorf("%s: a time of day: nobody reads it there", path)
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d files, %v", n, err)
	}
}
