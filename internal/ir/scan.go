package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// scanner splits one line into tokens.
type scanner struct {
	s string
	i int
}

func (s *scanner) end() bool    { return s.i >= len(s.s) }
func (s *scanner) rest() string { return s.s[s.i:] }

func (s *scanner) peek() byte {
	if s.end() {
		return 0
	}
	return s.s[s.i]
}

func (s *scanner) space() {
	for s.peek() == ' ' || s.peek() == '\t' || s.peek() == '\r' {
		s.i++
	}
}

func (s *scanner) byte(c byte) bool {
	if s.peek() != c || s.end() {
		return false
	}
	s.i++
	return true
}

// word consumes w if it is next as a whole word.
func (s *scanner) word(w string) bool {
	if !strings.HasPrefix(s.rest(), w) {
		return false
	}
	if after := s.s[s.i+len(w):]; after != "" && isIdent(after[0]) {
		return false
	}
	s.i += len(w)
	return true
}

func isIdent(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (s *scanner) ident() string {
	start := s.i
	for isIdent(s.peek()) {
		s.i++
	}
	return s.s[start:s.i]
}

// funcName reads the name of a program: words with dots between them.
func (s *scanner) funcName() string {
	start := s.i
	for isIdent(s.peek()) || s.peek() == '.' {
		s.i++
	}
	return s.s[start:s.i]
}

func (s *scanner) number() (int, error) {
	start := s.i
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.i++
	}
	n, err := strconv.Atoi(s.s[start:s.i])
	if err != nil {
		return 0, fmt.Errorf("got %q, want a number", s.s[start:])
	}
	return n, nil
}

func (s *scanner) quotedIfAny() (string, error) {
	if s.peek() != '"' {
		return "", nil
	}
	text, err := strconv.QuotedPrefix(s.rest())
	if err != nil {
		return "", fmt.Errorf("unclosed quote: %q", s.rest())
	}
	s.i += len(text)
	return strconv.Unquote(text)
}
