//go:build !unix

package bench

import "time"

var started = time.Now()

// CPUSeconds returns the time that has passed: this system does not tell what a process worked.
func CPUSeconds() float64 { return time.Since(started).Seconds() }
