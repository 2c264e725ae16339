package nn

import (
	"fmt"
	"path"
)

// Freeze excludes the parameters whose names match a pattern from training. Patterns are as in optim.Group: *
// matches any text. A pattern that matches nothing is an error.
func Freeze(params []*Param, patterns ...string) error {
	for _, pattern := range patterns {
		found := false
		for _, p := range params {
			ok, err := path.Match(pattern, p.Name)
			if err != nil {
				return fmt.Errorf("freeze: pattern %q: %w", pattern, err)
			}
			if ok {
				p.Fixed, found = true, true
			}
		}
		if !found {
			return fmt.Errorf("freeze: pattern %q names no parameter", pattern)
		}
	}
	return nil
}

// Trainable returns the parameters that are not frozen.
func Trainable(params []*Param) []*Param {
	var out []*Param
	for _, p := range params {
		if !p.Fixed && !p.Buffer {
			out = append(out, p)
		}
	}
	return out
}
