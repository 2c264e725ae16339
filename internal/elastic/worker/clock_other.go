//go:build !linux && !darwin

package worker

import "time"

// Clock returns the host's wall clock in nanoseconds: this system has no other clock that all processes
// share.
func Clock() int64 { return time.Now().UnixNano() }
