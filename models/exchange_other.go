//go:build !linux

package models

import "errors"

// exchange would swap two directories in one step; there is no such thing here.
func exchange(a, b string) error { return errors.ErrUnsupported }
