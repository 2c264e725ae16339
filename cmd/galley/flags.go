package main

import (
	"fmt"
	"maps"
	"slices"
)

// positive checks flags that must be at least one; the first bad one by name is the error.
func positive(flags map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if flags[name] < 1 {
			return fmt.Errorf("--%s=%d: want at least 1", name, flags[name])
		}
	}
	return nil
}
