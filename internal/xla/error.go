package xla

import (
	"regexp"
	"strings"
)

// OutOfMemoryError reports a program or an array that does not fit the device's memory.
type OutOfMemoryError struct{ What string }

func (e *OutOfMemoryError) Error() string {
	return "out of device memory: " + e.What + ": use a smaller batch, or recompute in the backward pass"
}

// PluginError is an error of a plugin: its first line, and the full text.
type PluginError struct{ Line, Full string }

func (e *PluginError) Error() string { return e.Line }

var pjrtCode = regexp.MustCompile(`PJRT error \(code=(\d+)\): `)

// exhausted is the beginning of plugins' out-of-memory errors.
const exhausted = "Out of memory while trying to "

// brief returns the plugin's error in one line, without the stack traces that plugins add.
func brief(err error) error {
	text := err.Error()
	code := ""
	if at := pjrtCode.FindStringSubmatchIndex(text); at != nil {
		code, text = text[at[2]:at[3]], text[at[1]:]
	}
	full := text
	if at := strings.Index(text, exhausted); at > 0 { // it may be within a list of failures
		text = text[at:]
	}
	text, rest, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(strings.TrimSpace(text), ":") { // the message continues on the next line
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
