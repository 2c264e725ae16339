package engine

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// bytesOf returns a text of one byte for each token.
func bytesOf(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, byte(id))
	}
	return string(b)
}

// spaced returns a text with a space before each token but the first, as some tokenizers have it.
func spaced(ids []int32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(rune('a' + id))
	}
	return strings.Join(words, " ")
}

func tokens(s string) (ids []int32) {
	for _, c := range []byte(s) {
		ids = append(ids, int32(c))
	}
	return ids
}

// FuzzText: whatever bytes come, what is shown is whole characters, all of them in the end, and up to the
// first stop text.
func FuzzText(f *testing.F) {
	f.Add("héllo, wörld €🙂", "wör")
	f.Add("a\xffb\xe2\x82", "x")
	f.Add("\xf0\x9f\x99", "\n\n")
	f.Add("aabaabaac", "aabaac")
	f.Fuzz(func(t *testing.T, s, stop string) {
		r := Request{Prompt: tokens("prompt")}
		if stop != "" && utf8.ValidString(stop) && !strings.Contains(stop, "\uFFFD") {
			r.StopText = []string{stop}
		}
		x := newText(bytesOf, &r)
		var shown strings.Builder
		stopped := false
		for _, id := range tokens(s) {
			var now string
			now, stopped = x.add(id)
			if !utf8.ValidString(now) {
				t.Fatalf("%q of %q is not whole characters", now, s)
			}
			shown.WriteString(now)
			if stopped {
				break
			}
		}
		if !stopped {
			shown.WriteString(x.rest())
		}
		want := s
		if i := strings.Index(s, stop); stopped && i >= 0 {
			want = s[:i]
		}
		if utf8.ValidString(s) && shown.String() != want {
			t.Fatalf("got %q of %q up to %q, want %q", shown.String(), s, stop, want)
		}
	})
}

// TestSpaces: a token's text may depend on the one before it.
func TestSpaces(t *testing.T) {
	x := newText(spaced, &Request{Prompt: []int32{1, 2}})
	got := ""
	for _, id := range []int32{3, 4, 5} {
		s, _ := x.add(id)
		got += s
	}
	if got += x.rest(); got != " d e f" {
		t.Errorf("got %q", got)
	}
}
