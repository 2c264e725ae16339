package triton

import (
	"fmt"
	"strconv"
	"strings"
)

// scanner splits text into tokens. Its methods panic with a syntaxError, which parse returns.
type scanner struct {
	text string
	at   int
}

type syntaxError struct{ error }

// fail reports what was expected and what was found.
func (s *scanner) fail(want string) {
	s.space()
	rest, _, _ := strings.Cut(s.text[s.at:], "\n")
	if len(rest) > 30 {
		rest = rest[:30] + "…"
	}
	s.failAt(s.at, "got %q: want %s", rest, want)
}

func (s *scanner) failAt(at int, format string, args ...any) {
	panic(syntaxError{fmt.Errorf("triton: %s: %s", place(s.text, at), fmt.Sprintf(format, args...))})
}

// place returns the line and column of a byte of a text.
func place(text string, at int) string {
	before := text[:at]
	return fmt.Sprintf("line %d, column %d", 1+strings.Count(before, "\n"),
		at-strings.LastIndexByte(before, '\n'))
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// peek reports whether sign is next.
func (s *scanner) peek(sign string) bool {
	s.space()
	return strings.HasPrefix(s.text[s.at:], sign)
}

// accept consumes sign if it is next.
func (s *scanner) accept(sign string) bool {
	if !s.peek(sign) {
		return false
	}
	s.at += len(sign)
	return true
}

func (s *scanner) want(sign string) {
	if !s.accept(sign) {
		s.fail(sign)
	}
}

// keyword consumes word if it is next as a whole word.
func (s *scanner) keyword(word string) bool {
	if !s.peek(word) || s.at+len(word) < len(s.text) && isName(s.text[s.at+len(word)]) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *scanner) wantKeyword(word string) {
	if !s.keyword(word) {
		s.fail(word)
	}
}

// run consumes at least one character for which ok holds.
func (s *scanner) run(what string, ok func(c byte) bool) string {
	s.space()
	start := s.at
	for s.at < len(s.text) && ok(s.text[s.at]) {
		s.at++
	}
	if s.at == start {
		s.fail(what)
	}
	return s.text[start:s.at]
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' ||
		c == '$'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) name() string { return s.run("a name", isName) }

// value consumes the name of a value without its sign: a number, or an identifier.
func (s *scanner) value() string {
	s.want("%")
	at := s.at
	name := s.name()
	if isDigit(name[0]) && strings.Trim(name, "0123456789") != "" {
		s.failAt(at, "got value %%%s: want a number, or a letter first", name)
	}
	return name
}

// number consumes an integer, a float, the bits of one, or a truth value.
func (s *scanner) number() string {
	return s.run("a number", func(c byte) bool { return isName(c) || c == '+' || c == '-' })
}

func (s *scanner) int() int {
	at := s.at
	n, err := strconv.Atoi(s.run("a number", isDigit))
	if err != nil {
		s.at = at
		s.fail("a smaller number")
	}
	return n
}

// list calls item for each of the comma-separated elements between open and end.
func (s *scanner) list(open, end string, item func()) {
	s.want(open)
	if s.accept(end) {
		return
	}
	for {
		item()
		if s.accept(end) {
			return
		}
		s.want(",")
	}
}

// attrs parses a dictionary of numbers, words and strings.
func (s *scanner) attrs() map[string]string {
	attrs := map[string]string{}
	s.list("{", "}", func() {
		name := s.name()
		switch {
		case !s.accept("="):
			attrs[name] = ""
		case s.accept(`"`):
			attrs[name] = s.run("a string", func(c byte) bool { return c != '"' })
			s.want(`"`)
		default:
			attrs[name] = s.number()
			if s.accept(":") {
				s.name()
			}
		}
	})
	return attrs
}

// typ parses a type: f32, !tt.ptr<f32>, tensor<64xf32> or tensor<64x!tt.ptr<f32>>.
func (s *scanner) typ() typ {
	if !s.accept("tensor<") {
		return s.scalar()
	}
	at := s.at
	n := s.int()
	if n < 1 || n > maxTensor || n&(n-1) != 0 {
		s.failAt(at, "a tensor of %d: want a power of two up to %d", n, maxTensor)
	}
	s.want("x")
	t := s.scalar()
	t.lanes = n
	s.want(">")
	return t
}

func (s *scanner) scalar() typ {
	if s.accept("!tt.ptr<") {
		t := s.scalar()
		if t.pointer {
			s.fail("a pointer to numbers")
		}
		s.want(">")
		return typ{elem: t.elem, pointer: true}
	}
	s.space()
	at := s.at
	word := s.name()
	if _, ok := widths[word]; !ok {
		s.failAt(at,
			"got type %s: want one of i1, i32, i64, f16, bf16, f32, f64, a pointer to one, or a tensor with one "+
				"dim of those", word)
	}
	return typ{elem: word}
}
