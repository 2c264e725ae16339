package strict

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxName is the longest name that a person would give.
const maxName = 256

// CheckName refuses names that a terminal would obey in place of showing them.
func CheckName(what, name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%s: it has %d bytes, want at most %d", what, len(name), maxName)
	}
	if strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("%s: got %s, want a name without control characters", what, strconv.Quote(name))
	}
	return nil
}

// Name returns a name as it can be shown: quoted where a terminal would obey it.
func Name(name string) string {
	if strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return name
}

// Line returns a text as it can be shown, with escapes in place of what a terminal would obey. Line ends
// stay.
func Line(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || !unprintable(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// unprintable reports whether a rune moves the cursor, colours or hides text: controls, and those that change
// the direction of text.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' ||
		r == unicode.ReplacementChar
}
