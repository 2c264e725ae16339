//go:build unix

package models

import (
	"errors"
	"os"
	"syscall"
)

// gone reports whether no process has this id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// sameDevice reports whether two directories are on one file system, so that files can be renamed between
// them.
func sameDevice(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return false
	}
	s, okA := x.Sys().(*syscall.Stat_t)
	t, okB := y.Sys().(*syscall.Stat_t)
	return okA && okB && s.Dev == t.Dev
}
