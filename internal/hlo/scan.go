package hlo

import (
	"fmt"
	"strings"
)

// scanner splits text into tokens. Its methods panic with a syntaxError, which Parse returns.
type scanner struct {
	text string
	at   int
	// lines is the number of line breaks before counted.
	lines, counted int
}

type syntaxError struct{ error }

// fail reports what was expected and what was found, with the line.
func (s *scanner) fail(want string) {
	rest := s.text[s.at:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	if len(rest) > 30 {
		rest = rest[:30] + "…"
	}
	panic(syntaxError{fmt.Errorf("stablehlo: line %d: got %q: want %s", s.line(), rest, want)})
}

// line returns the current line; the scanner never goes back to an earlier one.
func (s *scanner) line() int {
	s.lines += strings.Count(s.text[s.counted:max(s.at, s.counted)], "\n")
	s.counted = max(s.at, s.counted)
	return 1 + s.lines
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// peek reports whether word is next.
func (s *scanner) peek(word string) bool {
	s.space()
	return strings.HasPrefix(s.text[s.at:], word)
}

// accept consumes word if it is next.
func (s *scanner) accept(word string) bool {
	if !s.peek(word) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *scanner) want(word string) {
	if !s.accept(word) {
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

// quoted consumes a string and returns it without the quotes, with its escapes. It must end on its line.
func (s *scanner) quoted() string {
	s.want(`"`)
	start := s.at
	for s.at < len(s.text) && s.text[s.at] != '"' && s.text[s.at] != '\n' {
		n := 1
		if s.text[s.at] == '\\' {
			if n = escape(s.text[s.at:]); n == 0 {
				s.fail(`an escape: \", \\, \n, \t or two hex digits`)
			}
		}
		s.at += n
	}
	text := s.text[start:s.at]
	if s.at == len(s.text) || s.text[s.at] == '\n' {
		s.at = start
		s.fail(`a closing "`)
	}
	s.at++
	return text
}

// escape returns the length of the escape at the beginning of a text; 0 if there is none.
func escape(text string) int {
	isHex := func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
	switch {
	case len(text) > 1 && strings.IndexByte(`"\nt`, text[1]) >= 0:
		return 2
	case len(text) > 2 && isHex(text[1]) && isHex(text[2]):
		return 3
	}
	return 0
}

// value consumes the name of a value: %3, %arg0 or %3#1.
func (s *scanner) value() string {
	s.want("%")
	name := "%" + s.name()
	if strings.HasPrefix(s.text[s.at:], "#") {
		s.at++
		name += "#" + s.run("a number", isDigit)
	}
	return name
}

// number consumes an integer, a float, or the bits of one.
func (s *scanner) number() string {
	return s.run("a number", func(c byte) bool {
		return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || strings.IndexByte("+-.x", c) >= 0
	})
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
