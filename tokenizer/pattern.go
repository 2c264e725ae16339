package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// gpt2Pattern is what a ByteLevel step cuts by.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + spaceRun

// spaceRun ends the patterns of most tokenizers: a run of white space leaves its last character to the word that
// follows. Go's regexp has no lookahead; here it takes all of the run, and find gives the last one back.
const spaceRun = `|\s+(?!\S)|\s+`

// pattern is a regular expression written for Oniguruma that Go's regexp can run, in linear time.
type pattern struct {
	re  *regexp.Regexp
	run int // the group that stands for spaceRun; 0 for none
}

// newPattern reads a regular expression: by Go's regexp where that can say the same, else by a backtracking one.
func newPattern(expr string) (matcher, error) {
	if p, err := newLinear(expr); err == nil {
		return p, nil
	}
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q is not supported: %w", expr, err)
	}
	return backtracking{re}, nil
}

func newLinear(expr string) (*pattern, error) {
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
		return nil, err
	}
	if anchored(translated) {
		return nil, errors.New("it looks at what precedes a match")
	}
	p := &pattern{re: re}
	if found {
		p.run = re.NumSubexp()
	}
	return p, nil
}

func (p *pattern) each(text string, match func(begin, end int)) {
	for at := 0; at < len(text); {
		begin, end := p.find(text[at:])
		if begin == end {
			return
		}
		match(at+begin, at+end)
		at += end
	}
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

// backtracking is a regular expression with lookaround, anchors or sets within sets.
type backtracking struct{ re *regexp2.Regexp }

func (b backtracking) each(text string, match func(begin, end int)) {
	places := make([]int, 0, len(text)+1) // the byte of each character: regexp2 counts characters
	for i := range text {
		places = append(places, i)
	}
	places = append(places, len(text))
	m, err := b.re.FindStringMatch(text)
	for m != nil && err == nil { // err: only a time limit, and none is set
		if m.Length > 0 {
			match(places[m.Index], places[m.Index+m.Length])
		}
		m, err = b.re.FindNextMatch(m)
	}
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
