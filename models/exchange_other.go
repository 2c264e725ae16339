//go:build !linux

package models

import "errors"

// exchange would atomically swap two directories, which this system cannot do.
func exchange(a, b string) error { return errors.ErrUnsupported }
