package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestBarLine: the line stays shorter than any terminal, so that it never wraps, and says more where there is
// room.
func TestBarLine(t *testing.T) {
	const text = "step 12/600  loss 3.214  8123 tokens/s"
	for columns := 1; columns < 160; columns++ {
		got := barLine(text, 12, 600, columns, time.Minute)
		if n := utf8.RuneCountInString(got); n >= columns {
			t.Errorf("%d columns: %q has %d", columns, got, n)
		}
		if columns > len(text) && !strings.HasPrefix(got, text) {
			t.Errorf("%d columns: %q lacks the text", columns, got)
		}
	}
	want := text + "  49m0s left  [" + strings.Repeat(".", barWidth) + "]"
	if got := barLine(text, 12, 600, 100, time.Minute); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := barLine("x", 0, 0, 80, 0); got != "x" {
		t.Errorf("work of no parts: %q", got)
	}
	if got := barLine("x", 9, 4, 80, 0); !strings.HasSuffix(got, "["+strings.Repeat("#", barWidth)+"]") {
		t.Errorf("more than all: %q", got)
	}
}
