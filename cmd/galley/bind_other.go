//go:build !linux

package main

import (
	"fmt"
	"runtime"
)

// allowedThreads says that processes cannot be bound here.
func allowedThreads() ([]int, error) { return nil, fmt.Errorf("not on %s", runtime.GOOS) }

func bindSelf() error { return nil }
