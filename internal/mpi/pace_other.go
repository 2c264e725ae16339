//go:build !linux

package mpi

import (
	"runtime"
	"time"
)

func yield() { runtime.Gosched() }

func nap(d time.Duration) { time.Sleep(d) }
