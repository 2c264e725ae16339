//go:build !unix

package models

// gone reports whether no process has this id; this system cannot tell.
func gone(int) bool { return false }

// sameDevice reports whether two directories are on one file system; this system cannot tell.
func sameDevice(a, b string) bool { return false }
