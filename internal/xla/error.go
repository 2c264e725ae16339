package xla

import (
	"regexp"
	"strings"
)

// OutOfMemoryError is a program or an array that does not fit the device.
type OutOfMemoryError struct{ What string }

func (e *OutOfMemoryError) Error() string {
	return "out of device memory: " + e.What + ": use a smaller batch, or recompute in the backward pass"
}

// PluginError is what a plugin says is wrong: its first line, and all of it.
type PluginError struct{ Line, Full string }

func (e *PluginError) Error() string { return e.Line }

var pjrtCode = regexp.MustCompile(`PJRT error \(code=(\d+)\): `)

// brief is the plugin's error in one line, without the stacks that plugins add.
func brief(err error) error {
	text := err.Error()
	code := ""
	if at := pjrtCode.FindStringSubmatchIndex(text); at != nil {
		code, text = text[at[2]:at[3]], text[at[1]:]
	}
	full := text
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimRight(strings.TrimSpace(text), ".:")
	text = strings.TrimPrefix(text, "RESOURCE_EXHAUSTED: ")
	if what, ok := strings.CutPrefix(text, "Out of memory while trying to "); ok || code == "8" {
		return &OutOfMemoryError{"cannot " + what}
	}
	return &PluginError{text, full}
}
