//go:build linux || darwin

package worker

import "golang.org/x/sys/unix"

// Clock returns the host's monotonic clock in nanoseconds, which all of its processes share. It continues
// while the host sleeps.
func Clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(steadyClock, &t); err != nil {
		return 0
	}
	return t.Nano()
}
