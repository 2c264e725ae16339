//go:build !unix

package models

// gone reports whether there is no process of a number; here that is not known.
func gone(int) bool { return false }

// sameDevice reports whether two directories are on one file system; here that is not known.
func sameDevice(a, b string) bool { return false }
