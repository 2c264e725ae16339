//go:build !linux

package main

import (
	"fmt"
	"runtime"
)

// allowedThreads returns an error: processes cannot be bound on this system.
func allowedThreads() ([]int, error) { return nil, fmt.Errorf("not on %s", runtime.GOOS) }

func bindSelf() error { return nil }
