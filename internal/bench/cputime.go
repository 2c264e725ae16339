//go:build unix

package bench

import "syscall"

// CPUSeconds returns the processor time of this process so far: the work of its threads, independent of other
// load.
func CPUSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + 1e-6*float64(t.Usec) }
	return seconds(u.Utime) + seconds(u.Stime)
}
