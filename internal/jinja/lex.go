package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a token is.
type kind uint8

const (
	textKind kind = iota // text between tags
	beginOutput
	endOutput
	beginBlock
	endBlock
	nameKind
	stringKind
	intKind
	floatKind
	signKind
	endKind
)

type token struct {
	kind kind
	text string
	line int
}

// lexer cuts a template into tokens.
type lexer struct {
	src    string
	at     int
	line   int
	tokens []token
}

// syntaxError returns a mistake in a template.
func syntaxError(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

func lex(src string) ([]token, error) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1}
	for l.at < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.add(endKind, "")
	return l.tokens, nil
}

func (l *lexer) add(k kind, text string) { l.tokens = append(l.tokens, token{k, text, l.line}) }

// next takes text up to the next tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.at:]
	i := strings.IndexByte(rest, '{')
	for i >= 0 && (i+1 >= len(rest) || !strings.ContainsRune("{%#", rune(rest[i+1]))) {
		j := strings.IndexByte(rest[i+1:], '{')
		if j < 0 {
			i = -1
			break
		}
		i += 1 + j
	}
	if i < 0 {
		l.put(rest)
		l.at = len(l.src)
		return nil
	}
	tag, sign := rest[i+1], byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') {
		sign = rest[i+2]
	}
	l.put(before(rest[:i], tag, sign, l.at == 0))
	l.at += i + 2
	if sign != 0 {
		l.at++
	}
	l.line = 1 + strings.Count(l.src[:l.at], "\n")
	switch tag {
	case '#':
		return l.comment()
	case '%':
		return l.tag(beginBlock, endBlock, "%}")
	}
	return l.tag(beginOutput, endOutput, "}}")
}

func (l *lexer) put(text string) {
	if text != "" {
		l.add(textKind, text)
	}
}

// before returns text as it stands before a tag: blanks between the begin of a line and a block are dropped,
// and all blanks where a minus sign says so.
func before(text string, tag, sign byte, first bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, unicode.IsSpace)
	}
	if sign == '+' || tag == '{' {
		return text
	}
	i := strings.LastIndexByte(text, '\n')
	if i < 0 && !first {
		return text
	}
	if strings.TrimSpace(text[i+1:]) == "" {
		return text[:i+1]
	}
	return text
}

// after drops what follows a tag: all blanks after a minus sign, else after blocks one line's end.
func (l *lexer) after(sign byte, block bool) {
	switch {
	case sign == '-':
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], unicode.IsSpace))
	case block && sign != '+' && strings.HasPrefix(l.src[l.at:], "\n"):
		l.at++
	}
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.at:], "#}")
	if i < 0 {
		return syntaxError(l.line, "a comment does not end: want #}")
	}
	sign := byte(0)
	if i > 0 {
		sign = l.src[l.at+i-1]
	}
	l.at += i + 2
	l.after(sign, true)
	return nil
}

// tag takes the tokens of a block or an output.
func (l *lexer) tag(begin, end kind, closing string) error {
	l.add(begin, "")
	depth := 0
	for {
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], unicode.IsSpace))
		l.line = 1 + strings.Count(l.src[:l.at], "\n")
		rest := l.src[l.at:]
		if rest == "" {
			return syntaxError(l.line, "a tag does not end: want %s", closing)
		}
		if depth == 0 && l.closes(rest, closing, end) {
			return l.raw(begin)
		}
		if err := l.one(rest, &depth); err != nil {
			return err
		}
	}
}

func (l *lexer) closes(rest, closing string, end kind) bool {
	sign := byte(0)
	if (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], closing) {
		sign = rest[0]
		l.at++
	} else if !strings.HasPrefix(rest, closing) {
		return false
	}
	l.at += 2
	l.add(end, "")
	l.after(sign, end == endBlock)
	return true
}

// raw takes the text of a raw block as it is.
func (l *lexer) raw(begin kind) error {
	n := len(l.tokens)
	if begin != beginBlock || n < 3 || l.tokens[n-2].text != "raw" || l.tokens[n-3].kind != beginBlock {
		return nil
	}
	l.tokens = l.tokens[:n-3]
	i := strings.Index(l.src[l.at:], "endraw")
	open := -1
	if i >= 0 {
		open = strings.LastIndex(l.src[l.at:l.at+i], "{%")
	}
	if open < 0 {
		return syntaxError(l.line, "a raw block does not end: want {%% endraw %%}")
	}
	sign := l.src[l.at+open+2]
	l.put(before(l.src[l.at:l.at+open], '%', sign, false))
	l.at += i + len("endraw")
	end := strings.Index(l.src[l.at:], "%}")
	if end < 0 || strings.Trim(l.src[l.at:l.at+end], " \t\n-+") != "" {
		return syntaxError(l.line, "endraw: want %%}")
	}
	sign = 0
	if end > 0 {
		sign = l.src[l.at+end-1]
	}
	l.at += end + 2
	l.after(sign, true)
	return nil
}

var signs = []string{"//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "(", ")",
	"[", "]", "{", "}", ".", ",", ":", "|", "="}

// one takes one token.
func (l *lexer) one(rest string, depth *int) error {
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case r == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && !unicode.IsLetter(r) &&
				!unicode.IsDigit(r)
		})
		if n < 0 {
			n = len(rest)
		}
		l.add(nameKind, rest[:n])
		l.at += n
		return nil
	case r >= '0' && r <= '9':
		l.number(rest)
		return nil
	case r == '"' || r == '\'':
		return l.text(rest)
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			switch s {
			case "(", "[", "{":
				*depth++
			case ")", "]", "}":
				*depth--
			}
			l.add(signKind, s)
			l.at += len(s)
			return nil
		}
	}
	return syntaxError(l.line, "unexpected character %q", r)
}

func (l *lexer) number(rest string) {
	digits := func(s string) int {
		n := 0
		for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '_') {
			n++
		}
		return n
	}
	n, k := digits(rest), intKind
	if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		n, k = n+1+digits(rest[n+1:]), floatKind
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if d := digits(rest[m:]); d > 0 {
			n, k = m+d, floatKind
		}
	}
	l.add(k, strings.ReplaceAll(rest[:n], "_", ""))
	l.at += n
}

// text takes a string with Python's escapes.
func (l *lexer) text(rest string) error {
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == rest[0]:
			l.add(stringKind, b.String())
			l.at += i + 1
			return nil
		case c == '\\' && i+1 < len(rest):
			i++
			i += escape(&b, rest[i:])
		default:
			b.WriteByte(c)
		}
	}
	return syntaxError(l.line, "a string does not end")
}

// escape writes what follows a backslash and returns by how much more than one byte that is.
func escape(b *strings.Builder, s string) int {
	plain := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", '\n': "",
		'a': "\a",
		'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00"}
	if t, ok := plain[s[0]]; ok {
		b.WriteString(t)
		return 0
	}
	for c, n := range map[byte]int{'x': 2, 'u': 4, 'U': 8} {
		if s[0] != c || len(s) <= n {
			continue
		}
		var v rune
		if m, err := fmt.Sscanf(s[1:1+n], "%x", &v); err == nil && m == 1 {
			b.WriteRune(v)
			return n
		}
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 0
}
