package xla

import (
	"errors"
	"regexp"
	"strings"
)

// OutOfMemoryError is a program or an array that does not fit the device.
type OutOfMemoryError struct{ What string }

func (e *OutOfMemoryError) Error() string {
	return "out of device memory: " + e.What + ": use a smaller batch, or recompute in the backward pass"
}

var pjrtCode = regexp.MustCompile(`PJRT error \(code=(\d+)\): `)

// brief is the plugin's error in one line, without the stacks that plugins add.
func brief(err error) error {
	text := err.Error()
	code := ""
	if at := pjrtCode.FindStringSubmatchIndex(text); at != nil {
		code, text = text[at[2]:at[3]], text[at[1]:]
	}
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimRight(strings.TrimSpace(text), ".:")
	text = strings.TrimPrefix(text, "RESOURCE_EXHAUSTED: ")
	if what, ok := strings.CutPrefix(text, "Out of memory while trying to "); ok || code == "8" {
		return &OutOfMemoryError{"cannot " + what}
	}
	return errors.New(text)
}
