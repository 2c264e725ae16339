package engine

import (
	"strings"
	"unicode/utf8"
)

// text decodes the tokens of a continuation to text that can be shown at once: whole characters, and nothing
// that may be the beginning of a stop text.
type text struct {
	decode func([]int32) string // nil if no text is needed
	stops  []string
	keep   bool

	ids         []int32 // the last tokens of the prompt, and the generated ones
	shown, read int     // ids[shown:read] were decoded last time: the next text may depend on them
	held        string  // decoded, not shown yet
}

// contextTokens is the number of prompt tokens that are decoded with the first generated ones: a token's text
// may depend on those before it.
const contextTokens = 6

func newText(decode func([]int32) string, r *Request) text {
	tail := r.Prompt[max(0, len(r.Prompt)-contextTokens):]
	return text{decode: decode, stops: r.StopText, keep: r.KeepStop, ids: append([]int32(nil), tail...),
		read: len(tail)}
}

// add returns the text that can be shown after one more token, and whether a stop text ends it.
func (t *text) add(id int32) (shown string, stopped bool) {
	if t.decode == nil {
		return "", false
	}
	t.ids = append(t.ids, id)
	before, now := t.decode(t.ids[t.shown:t.read]), t.decode(t.ids[t.shown:])
	if !incomplete(now) {
		t.held += strings.ToValidUTF8(now[common(before, now):], "\uFFFD")
		t.shown, t.read = t.read, len(t.ids)
	}
	return t.release()
}

// common returns the length of the common prefix of two texts in bytes, cut to whole characters.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// incomplete reports whether a text ends within a character.
func incomplete(s string) bool {
	for i := 1; i <= min(utf8.UTFMax-1, len(s)); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			return !utf8.FullRuneInString(s[len(s)-i:])
		}
	}
	return false
}

// release returns the part of the held text that can be shown.
func (t *text) release() (shown string, stopped bool) {
	at, length := -1, 0
	for _, stop := range t.stops {
		if i := strings.Index(t.held, stop); i >= 0 && (at < 0 || i < at) {
			at, length = i, len(stop)
		}
	}
	if at >= 0 {
		if t.keep {
			at += length
		}
		shown, t.held = t.held[:at], ""
		return shown, true
	}
	n := len(t.held) - t.begun()
	shown, t.held = t.held[:n], t.held[n:]
	return shown, false
}

// begun returns how many bytes at the end of the held text may be the beginning of a stop text.
func (t *text) begun() int {
	most := 0
	for _, stop := range t.stops {
		for n := min(len(stop)-1, len(t.held)); n > most; n-- {
			if strings.HasSuffix(t.held, stop[:n]) {
				most = n
				break
			}
		}
	}
	return most
}

// rest returns the remaining text when the continuation ends; an incomplete character becomes
// U+FFFD.
func (t *text) rest() string {
	if t.decode == nil {
		return ""
	}
	if t.read < len(t.ids) {
		before, now := t.decode(t.ids[t.shown:t.read]), t.decode(t.ids[t.shown:])
		t.held += strings.ToValidUTF8(now[common(before, now):], "\uFFFD")
		t.shown, t.read = t.read, len(t.ids)
	}
	shown := t.held
	t.held = ""
	return shown
}
