package job

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Threads returns the number of threads per process if the processes of a host share its cores. A launcher
// that binds processes to cores has already divided them.
func (j *Job) Threads() int {
	if n := runtime.NumCPU(); n < machineCores() {
		return n
	}
	return max(1, runtime.NumCPU()/j.Neighbours())
}

// Bound returns how many of the machine's cores the launcher lets this process use; false if all.
func (j *Job) Bound() (cores, of int, bound bool) {
	n, all := runtime.NumCPU(), machineCores()
	return n, all, n < all
}

// machineCores returns how many cores the machine has, whichever of them the process may use.
func machineCores() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		var lo, hi int
		switch k, _ := fmt.Sscanf(part, "%d-%d", &lo, &hi); k {
		case 1:
			n++
		case 2:
			n += hi - lo + 1
		}
	}
	return max(n, 1)
}
