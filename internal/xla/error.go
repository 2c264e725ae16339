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

// exhausted is how plugins begin to say that memory is not enough.
const exhausted = "Out of memory while trying to "

// brief returns the plugin's error in one line, without the stacks that plugins add.
func brief(err error) error {
	text := err.Error()
	code := ""
	if at := pjrtCode.FindStringSubmatchIndex(text); at != nil {
		code, text = text[at[2]:at[3]], text[at[1]:]
	}
	full := text
	if at := strings.Index(text, exhausted); at > 0 { // somewhere in a list of what failed
		text = text[at:]
	}
	text, rest, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(strings.TrimSpace(text), ":") { // what it announces is on the next line
		next, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		text += " " + next
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".: ")
	text = strings.TrimPrefix(text, "RESOURCE_EXHAUSTED: ")
	if what, ok := strings.CutPrefix(text, exhausted); ok || code == "8" {
		return &OutOfMemoryError{"cannot " + what}
	}
	return &PluginError{text, full}
}
