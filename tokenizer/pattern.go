package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// gpt2Pattern is the pattern by which a ByteLevel step cuts.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + spaceRun

// spaceRun ends the patterns of most tokenizers: a run of white space leaves its last character to the word
// that follows. matchAt does this without lookahead: it matches the whole run and gives the last one back.
const spaceRun = `|\s+(?!\S)|\s+`

// pattern is a regular expression in Oniguruma's syntax, compiled to a dfa.
type pattern struct {
	dfa   *dfa
	space *dfa // the white space of spaceRun; nil for none
}

// newPattern compiles a regular expression: to a dfa if possible, else for a backtracking
// library.
func newPattern(expr string) (matcher, error) {
	if p, err := newLinear(expr); err == nil {
		return p, nil
	}
	re, err := regexp2.Compile(wordsOf(expr), regexp2.Multiline) // in Oniguruma ^ and $ match at lines
	if err != nil {
		return nil, fmt.Errorf("regular expression %q is not supported: %w", expr, err)
	}
	return backtracking{re}, nil
}

// wordsOf rewrites \w to Oniguruma's set of characters: regexp2's has fewer numbers and marks.
func wordsOf(expr string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		if c == '\\' && i+1 < len(expr) {
			i++
			text, err := translateEscape(expr[i], inClass)
			if expr[i]|0x20 != 'w' || err != nil {
				text = expr[i-1 : i+1]
			}
			b.WriteString(text)
			continue
		}
		inClass = c == '[' || inClass && c != ']'
		b.WriteByte(c)
	}
	return b.String()
}

func newLinear(expr string) (*pattern, error) {
	body, found := strings.CutSuffix(expr, spaceRun)
	translated, err := translate(body)
	if err != nil {
		return nil, err
	}
	if empty, err := regexp.MatchString(`^(?:`+translated+`)$`, ""); err != nil || empty {
		return nil, errors.New("matches of no length")
	}
	p := &pattern{}
	if p.dfa, err = newDFA(translated); err != nil {
		return nil, err
	}
	if found {
		p.space, err = newDFA(`[` + classes['s'] + `]+`)
	}
	return p, err
}

func (p *pattern) each(text string, match func(begin, end int)) {
	for at := 0; at < len(text); {
		n := p.matchAt(text[at:])
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text[at:])
		} else {
			match(at, at+n)
		}
		at += n
	}
}

// matchAt returns the length of the match at the beginning of text; 0 is none.
func (p *pattern) matchAt(text string) int {
	n := p.dfa.match(text)
	if n > 0 || p.space == nil {
		return n
	}
	n = p.space.match(text)
	if n == 0 || n == len(text) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(text[:n]); last < n {
		n -= last
	}
	return n
}

// backtracking is a regular expression with lookaround, anchors or nested character sets.
type backtracking struct{ re *regexp2.Regexp }

func (b backtracking) each(text string, match func(begin, end int)) {
	places := make([]int, 0, len(text)+1) // the byte offset of each character: regexp2 counts characters
	for i := range text {
		places = append(places, i)
	}
	places = append(places, len(text))
	last := -1 // the end of the previous match: an empty match there is skipped
	m, err := b.re.FindStringMatch(text)
	for m != nil && err == nil { // err can only be a time limit, which is not set
		if m.Length > 0 || m.Index != last {
			last = m.Index + m.Length
			match(places[m.Index], places[last])
		}
		m, err = b.re.FindNextMatch(m)
	}
}

// classes are the characters of \s, \d and \w in Oniguruma; Go's are ASCII only.
var classes = map[byte]string{
	's': `\t-\r\x{85}\p{Z}`,
	'd': `\p{Nd}`,
	'w': `\p{L}\p{M}\p{N}\p{Pc}`,
}

// words is the pattern of the step Whitespace: its \w is that of another library, with fewer numbers.
const words = `[` + letterLike + `]+|[^` + letterLike + `\s]+`

// letterLike are the characters of that \w: letters, marks, digits, connectors, circled letters and joiners.
const letterLike = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}` +
	`\x{1f170}-\x{1f189}\x{200c}\x{200d}`

// translate rewrites an expression of Oniguruma in Go's syntax; Go's parser reports what it does not support.
func translate(expr string) (string, error) {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case c == '\\' && i+1 < len(expr):
			i++
			text, err := translateEscape(expr[i], inClass)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			continue
		case inClass && (c == '[' || strings.HasPrefix(expr[i:], "&&")):
			return "", errors.New("sets within sets")
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

func translateEscape(c byte, inClass bool) (string, error) {
	escape := string([]byte{'\\', c})
	class, ok := classes[c|0x20] // the capital letter is the complement
	switch {
	case !ok:
		return escape, nil
	case c&0x20 != 0 && inClass:
		return class, nil
	case c&0x20 != 0:
		return `[` + class + `]`, nil
	case inClass:
		return "", errors.New(escape + " within a set")
	}
	return `[^` + class + `]`, nil
}
