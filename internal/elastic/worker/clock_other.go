//go:build !linux

package worker

import "time"

// Clock returns the host's clock, in nanoseconds.
func Clock() int64 { return time.Now().UnixNano() }
