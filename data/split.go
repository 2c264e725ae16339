package data

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// split is one step that cuts text into pieces.
type split struct {
	prefixSpace bool     // first puts a space before text that has none there
	pattern     *pattern // nil cuts nothing
	keep        keep
}

// keep is which pieces of a split go on.
type keep uint8

const (
	keepAll keep = iota
	keepMatches
	keepRest // what is between matches
)

func (s split) cut(text string, piece func(string)) {
	if s.prefixSpace && text[0] != ' ' {
		text = " " + text
	}
	if s.pattern == nil {
		piece(text)
		return
	}
	for text != "" {
		begin, end := s.pattern.find(text)
		if begin > 0 && s.keep != keepMatches {
			piece(text[:begin])
		}
		if end > begin && s.keep != keepRest {
			piece(text[begin:end])
		}
		text = text[end:]
	}
}

// gpt2Pattern is what a ByteLevel step cuts by.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + spaceRun

// spaceRun ends the patterns of all these tokenizers: a run of white space leaves its last character to the word
// that follows. Go's regexp has no lookahead; here it takes all of the run, and find gives the last one back.
const spaceRun = `|\s+(?!\S)|\s+`

// pattern is a regular expression written for Oniguruma.
type pattern struct {
	re  *regexp.Regexp
	run int // the group that stands for spaceRun; 0 for none
}

func newPattern(expr string) (*pattern, error) {
	body, found := strings.CutSuffix(expr, spaceRun)
	translated, err := translate(body)
	if err != nil {
		return nil, err
	}
	if found {
		translated += `|([` + classes['s'] + `]+)`
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q is not supported: %w", expr, err)
	}
	if anchored(translated) {
		return nil, fmt.Errorf("regular expression %q is not supported: it looks at what precedes a match", expr)
	}
	p := &pattern{re: re}
	if found {
		p.run = re.NumSubexp()
	}
	return p, nil
}

// find is the first match in text that is not empty, or the end of text twice.
func (p *pattern) find(text string) (begin, end int) {
	for at := 0; at < len(text); {
		m := p.re.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		begin, end = at+m[0], at+m[1]
		if begin == end {
			_, n := utf8.DecodeRuneInString(text[end:])
			at = end + max(n, 1)
			continue
		}
		if p.run > 0 && m[2*p.run] >= 0 && end < len(text) {
			if _, n := utf8.DecodeLastRuneInString(text[begin:end]); n < end-begin {
				end -= n
			}
		}
		return begin, end
	}
	return len(text), len(text)
}

// classes are what \s, \d and \w hold in Oniguruma; Go's hold ASCII alone.
var classes = map[byte]string{
	's': `\t-\r\x{85}\p{Z}`,
	'd': `\p{Nd}`,
	'w': `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}`,
}

// translate writes an expression of Oniguruma for Go's regexp, which reports what it lacks itself.
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
				return "", fmt.Errorf("regular expression %q is not supported: %w", expr, err)
			}
			b.WriteString(text)
			continue
		case inClass && (c == '[' || strings.HasPrefix(expr[i:], "&&")):
			return "", fmt.Errorf("regular expression %q is not supported: sets within sets", expr)
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

// anchored reports whether a match depends on text before it, which find has cut off.
func anchored(expr string) bool {
	re, err := syntax.Parse(expr, syntax.Perl)
	return err == nil && anyAnchor(re)
}

func anyAnchor(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range re.Sub {
		if anyAnchor(sub) {
			return true
		}
	}
	return false
}
