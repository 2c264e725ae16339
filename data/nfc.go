package data

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// nfc is text in Unicode's normalization form C: characters decomposed, their marks put in canonical order, and
// composed again (Unicode Standard Annex #15). Bytes that are not UTF-8 stay.
func nfc(text string) string {
	// Below U+0300, whose first byte is 0xCC, there are no marks, and everything is in its form.
	if strings.IndexFunc(text, func(r rune) bool { return r >= 0x300 }) < 0 {
		return text
	}
	t := unicodeTable()
	out := make([]byte, 0, len(text))
	for text != "" {
		n := validPrefix(text)
		for _, r := range t.compose(t.decompose(text[:n])) {
			out = utf8.AppendRune(out, r)
		}
		if n < len(text) {
			out = append(out, text[n])
			n++
		}
		text = text[n:]
	}
	return string(out)
}

// validPrefix is how many bytes of text are UTF-8.
func validPrefix(text string) int {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return i
		}
	}
	return len(text)
}

// canonical is what Unicode says of composing characters, Hangul aside.
type canonical struct {
	classes map[rune]uint8 // of marks; the rest are 0, starters
	parts   map[rune][]rune
	pairs   map[[2]rune]rune
}

// nfcTable has lines of three forms: a class with its characters, a character that composes from (=) and one that
// only decomposes to (>) others, short decompositions first. It is the data of golang.org/x/text/unicode/norm.
//
//go:embed nfc.txt
var nfcTable string

var unicodeTable = sync.OnceValue(func() *canonical {
	t := &canonical{classes: map[rune]uint8{}, parts: map[rune][]rune{}, pairs: map[[2]rune]rune{}}
	for line := range strings.Lines(nfcTable) {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "#":
		case fields[0] == "class":
			t.addClass(fields[1], fields[2:])
		default:
			t.addParts(fields)
		}
	}
	return t
})

func (t *canonical) addClass(class string, ranges []string) {
	var c uint8
	fmt.Sscan(class, &c)
	for _, s := range ranges {
		first, last, ok := strings.Cut(s, "-")
		if !ok {
			last = first
		}
		for r := parseHex(first); r <= parseHex(last); r++ {
			t.classes[r] = c
		}
	}
}

func (t *canonical) addParts(fields []string) {
	r := parseHex(fields[0])
	var parts []rune
	for _, f := range fields[2:] {
		parts = append(parts, parseHex(f))
	}
	t.parts[r] = parts
	if fields[1] == "=" {
		// All parts but the last make a character, which an earlier, shorter line has told.
		first := parts[0]
		for _, p := range parts[1 : len(parts)-1] {
			first = t.pairs[[2]rune{first, p}]
		}
		t.pairs[[2]rune{first, parts[len(parts)-1]}] = r
	}
}

func parseHex(s string) (r rune) {
	fmt.Sscanf(s, "%x", &r)
	return r
}

// decompose is text's characters in parts, each run of marks sorted by class.
func (t *canonical) decompose(text string) []rune {
	rs := make([]rune, 0, len(text))
	for _, r := range text {
		if parts, ok := t.parts[r]; ok {
			rs = append(rs, parts...)
		} else {
			rs = appendHangul(rs, r)
		}
	}
	for i := 0; i < len(rs); i++ {
		begin := i
		for i < len(rs) && t.classes[rs[i]] != 0 {
			i++
		}
		if i-begin > 1 {
			slices.SortStableFunc(rs[begin:i], func(a, b rune) int { return int(t.classes[a]) - int(t.classes[b]) })
		}
	}
	return rs
}

// compose joins each starter with the marks after it, in place. A mark is blocked from its starter by another of
// the same class between them.
func (t *canonical) compose(rs []rune) []rune {
	out := rs[:0]
	starter, class := -1, uint8(0)
	for _, r := range rs {
		c := t.classes[r]
		if starter >= 0 && (len(out)-1 == starter || class < c) {
			if both, ok := t.pair(out[starter], r); ok {
				out[starter] = both
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		class = c
		out = append(out, r)
	}
	return out
}

func (t *canonical) pair(a, b rune) (rune, bool) {
	if r, ok := hangulPair(a, b); ok {
		return r, true
	}
	r, ok := t.pairs[[2]rune{a, b}]
	return r, ok
}

// Hangul syllables are computed (Unicode Standard, section 3.12): 19 leading consonants, 21 vowels, and 27 trailing
// consonants or none.
const (
	hangul, lead, vowel, trail = 0xAC00, 0x1100, 0x1161, 0x11A7
	vowels, trails             = 21, 28
	leads                      = 19
	syllables                  = leads * vowels * trails
)

func appendHangul(rs []rune, r rune) []rune {
	s := r - hangul
	if s < 0 || s >= syllables {
		return append(rs, r)
	}
	rs = append(rs, lead+s/(vowels*trails), vowel+s/trails%vowels)
	if s%trails != 0 {
		rs = append(rs, trail+s%trails)
	}
	return rs
}

func hangulPair(a, b rune) (rune, bool) {
	switch {
	case a >= lead && a < lead+leads && b >= vowel && b < vowel+vowels:
		return hangul + ((a-lead)*vowels+b-vowel)*trails, true
	case a >= hangul && a < hangul+syllables && (a-hangul)%trails == 0 && b > trail && b < trail+trails:
		return a + b - trail, true
	}
	return 0, false
}
