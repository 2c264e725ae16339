package grammar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF returns a grammar as llama.cpp writes it: rules `name ::= …`, of which root is the text.
func GBNF(text string) (*Grammar, error) {
	if len(text) > maxGBNF {
		return nil, errLarge
	}
	p := &gbnf{text: text, builder: newBuilder(), rules: map[string]int{"root": 0}, defined: map[string]bool{}}
	p.space(true)
	for p.at < len(p.text) && p.err == nil {
		p.rule()
		p.space(true)
	}
	if p.err == nil && !p.defined["root"] {
		p.at = len(p.text)
		p.fail("no rule is called root: want one")
	}
	for _, name := range p.order {
		if p.err == nil && !p.defined[name] {
			p.err = fmt.Errorf("rule %q: it is named and not defined", name)
		}
	}
	if p.err == nil {
		p.err = p.builder.err
	}
	if p.err == nil && p.g.recursesLeft() {
		p.err = errors.New(
			"a rule begins with itself, or repeats what may be empty: want one that takes something first",
		)
	}
	if p.err != nil {
		return nil, p.err
	}
	return &p.g, nil
}

// maxGBNF bounds the texts of grammars.
const maxGBNF = 1 << 16

// gbnf is a grammar as it is read; the first mistake stays.
type gbnf struct {
	*builder
	text    string
	at      int
	depth   int
	rules   map[string]int
	defined map[string]bool
	order   []string // of the names, as they first occur
	err     error
}

func (p *gbnf) fail(format string, args ...any) {
	if p.err == nil {
		line := 1 + strings.Count(p.text[:min(p.at, len(p.text))], "\n")
		p.err = fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
	}
}

// peek returns the next byte, 0 at the end.
func (p *gbnf) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// space skips blanks and comments, and line ends where they mean nothing.
func (p *gbnf) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func (p *gbnf) name() string {
	first := p.at
	for isNameByte(p.peek()) {
		p.at++
	}
	if p.at == first {
		p.fail("got %q, want a rule's name", rest(p.text[p.at:]))
	}
	return p.text[first:p.at]
}

// rest returns the begin of what was not understood.
func rest(s string) string {
	if line, _, ok := strings.Cut(s, "\n"); ok {
		s = line
	}
	return s[:min(len(s), 12)]
}

// number returns the number of a rule, which may come to be defined later.
func (p *gbnf) number(name string) int {
	n, ok := p.rules[name]
	if !ok {
		n = p.builder.rule()
		p.rules[name] = n
	}
	p.order = append(p.order, name)
	return n
}

func (p *gbnf) rule() {
	name := p.name()
	n := p.number(name)
	p.space(false)
	switch {
	case p.err != nil:
		return
	case p.defined[name]:
		p.fail("rule %q: it is defined twice", name)
		return
	case !strings.HasPrefix(p.text[p.at:], "::="):
		p.fail("rule %q: got %q, want ::=", name, rest(p.text[p.at:]))
		return
	}
	p.at += len("::=")
	p.space(true)
	e := p.alternatives(false)
	if c := p.peek(); p.err == nil && p.at < len(p.text) && c != '\n' && c != '\r' {
		p.fail("got %q, want the end of the rule", rest(p.text[p.at:]))
	}
	if p.err == nil {
		p.defined[name] = true
		p.builder.define(n, e)
	}
}

// alternatives returns what | is between; inside parentheses lines may end anywhere.
func (p *gbnf) alternatives(nested bool) expr {
	if p.depth++; p.depth > 200 {
		p.fail("parentheses lie too deep")
	}
	defer func() { p.depth-- }()
	all := altExpr{p.sequence(nested)}
	for p.err == nil && p.peek() == '|' {
		p.at++
		p.space(true)
		all = append(all, p.sequence(nested))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (p *gbnf) sequence(nested bool) expr {
	var all seqExpr
	for p.err == nil {
		e := p.element()
		if e == nil {
			return all
		}
		all = append(all, p.repeated(e))
		p.space(nested)
	}
	return all
}

// element returns a literal, a class, any character, a rule or a group; nil is none.
func (p *gbnf) element() expr {
	switch c := p.peek(); {
	case c == '"':
		return p.quoted()
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return runes([]rune{0, utf8.MaxRune})
	case c == '(':
		p.at++
		p.space(true)
		e := p.alternatives(true)
		if p.err == nil && p.peek() != ')' {
			p.fail("got %q, want )", rest(p.text[p.at:]))
		}
		p.at++
		return e
	case isNameByte(c):
		return refExpr(p.number(p.name()))
	}
	return nil
}

func (p *gbnf) quoted() expr {
	p.at++
	var b strings.Builder
	for p.err == nil && p.peek() != '"' {
		b.WriteRune(p.char())
	}
	p.at++
	return literal(b.String())
}

// class returns [a-z…], or with ^ all other characters.
func (p *gbnf) class() expr {
	p.at++
	not := p.peek() == '^'
	if not {
		p.at++
	}
	var ranges []rune
	for p.err == nil && p.peek() != ']' {
		lo := p.char()
		hi := lo
		if p.peek() == '-' && p.at+1 < len(p.text) && p.text[p.at+1] != ']' {
			p.at++
			hi = p.char()
		}
		if hi < lo {
			p.fail("characters from %q to %q: want the lower first", lo, hi)
		}
		ranges = append(ranges, lo, hi)
	}
	p.at++
	if not {
		ranges = others(ranges)
	}
	if p.err == nil && len(ranges) == 0 {
		p.fail("a class of no characters")
	}
	return runes(ranges)
}

// char returns one character of a literal or a class.
func (p *gbnf) char() rune {
	c, n := utf8.DecodeRuneInString(p.text[min(p.at, len(p.text)):])
	switch {
	case n == 0 || c == '\n':
		p.fail("it does not end on its line")
		return 0
	case c == utf8.RuneError && n == 1:
		p.fail("a byte that is no character")
	}
	if p.at += n; c != '\\' {
		return c
	}
	c = rune(p.peek())
	p.at++
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case '"', '\\', '[', ']', '-', '^':
		return c
	}
	p.fail("escape \\%c is not known", c)
	return 0
}

func (p *gbnf) hex(digits int) rune {
	end := min(p.at+digits, len(p.text))
	v, err := strconv.ParseUint(p.text[min(p.at, end):end], 16, 32)
	if err != nil || end-p.at < digits || v > utf8.MaxRune {
		p.fail("an escape of %d hexadecimal digits: got %q", digits, rest(p.text[min(p.at, end):]))
		return 0
	}
	p.at = end
	return rune(v)
}

// mostRepeats bounds {n}.
const mostRepeats = 2000

// repeated returns an element with what follows it: *, +, ?, {n}, {n,} or {n,m}.
func (p *gbnf) repeated(e expr) expr {
	for p.err == nil {
		switch p.peek() {
		case '*':
			e = repeatExpr{e, 0, -1}
		case '+':
			e = repeatExpr{e, 1, -1}
		case '?':
			e = optional(e)
		case '{':
			e = p.counted(e)
		default:
			return e
		}
		p.at++
	}
	return e
}

func (p *gbnf) counted(e expr) expr {
	end := strings.IndexByte(p.text[p.at:], '}')
	if end < 0 {
		p.fail("{ without }")
		return e
	}
	inner := p.text[p.at+1 : p.at+end]
	low, high, several := strings.Cut(inner, ",")
	least, err := strconv.Atoi(strings.TrimSpace(low))
	most := least
	if several {
		if most = -1; strings.TrimSpace(high) != "" && err == nil {
			most, err = strconv.Atoi(strings.TrimSpace(high))
		}
	}
	if err != nil || least < 0 || least > mostRepeats || most > mostRepeats || most >= 0 && most < least {
		p.fail("{%s}: want {n}, {n,} or {n,m} of at most %d", inner, mostRepeats)
		return e
	}
	p.at += end
	return repeatExpr{e, least, most}
}
