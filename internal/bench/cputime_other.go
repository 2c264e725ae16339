//go:build !unix

package bench

import "time"

var started = time.Now()

// CPUSeconds returns the elapsed time: this system does not report the processor time of a process.
func CPUSeconds() float64 { return time.Since(started).Seconds() }
