package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// used returns what this process has had so far; nothing where the system does not say.
func used() (u usage) {
	paths, _ := filepath.Glob("/proc/self/task/*/schedstat") // the pattern is good
	for _, path := range paths {
		text, err := os.ReadFile(path)
		f := strings.Fields(string(text))
		if err != nil || len(f) < 2 {
			continue // the thread has ended
		}
		ran, _ := strconv.ParseFloat(f[0], 64) // what the system writes is nanoseconds
		waited, _ := strconv.ParseFloat(f[1], 64)
		u.Ran, u.Waited = u.Ran+1e-9*ran, u.Waited+1e-9*waited
	}
	return u
}
