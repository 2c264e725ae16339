package step

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// SyntaxError is an error in a plan's text.
type SyntaxError struct {
	// Line and Column count from one; columns are bytes.
	Line, Column int
	Err          error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("plan: %d:%d: %v", e.Line, e.Column, e.Err) }

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// scanner reads the words of one line. It keeps the first error, and after it returns zero values.
type scanner struct {
	text string
	i    int
	line int
	err  *SyntaxError
}

func (s *scanner) errorf(column int, format string, args ...any) {
	if s.err == nil {
		s.err = &SyntaxError{s.line, column, fmt.Errorf(format, args...)}
	}
}

// fail records an error at the word that began at a column.
func (s *scanner) fail(column int, err error) {
	if err != nil && s.err == nil {
		s.err = &SyntaxError{s.line, column, err}
	}
}

func (s *scanner) blanks() {
	for s.i < len(s.text) && s.text[s.i] == ' ' {
		s.i++
	}
}

// column returns the column at which the next word begins.
func (s *scanner) column() int {
	s.blanks()
	return s.i + 1
}

// more reports whether another word follows and there was no error.
func (s *scanner) more() bool {
	s.blanks()
	return s.err == nil && s.i < len(s.text)
}

// word returns the next word, up to a blank.
func (s *scanner) word() string {
	if s.err != nil || !s.more() {
		s.errorf(s.i+1, "the line ends: want another word")
		return ""
	}
	n := strings.IndexByte(s.text[s.i:], ' ')
	if n < 0 {
		n = len(s.text) - s.i
	}
	s.i += n
	return s.text[s.i-n : s.i]
}

// is reports whether the next word is w, and if so consumes it.
func (s *scanner) is(w string) bool {
	at := s.i
	if s.more() && s.word() == w {
		return true
	}
	s.i = at
	return false
}

// want consumes the next word, which must be w.
func (s *scanner) want(w string) {
	if at := s.column(); !s.is(w) {
		s.errorf(at, "got %q, want %s", s.text[at-1:], w)
	}
}

// number reads a number from 0 to limit-1.
func (s *scanner) number(limit int) int {
	at := s.column()
	return s.parseNumber(at, s.word(), limit)
}

func (s *scanner) parseNumber(at int, text string, limit int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= limit {
		s.errorf(at, "got %q, want a number from 0 to %d", text, limit-1)
		return 0
	}
	return n
}

// numbers reads all numbers that follow.
func (s *scanner) numbers(limit int) (list []int) {
	for s.more() && s.text[s.i] >= '0' && s.text[s.i] <= '9' {
		list = append(list, s.number(limit))
	}
	return list
}

// float reads a finite number.
func (s *scanner) float() float64 {
	at := s.column()
	text := s.word()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x-x != 0 {
		s.errorf(at, "got %q, want a number", text)
	}
	return x
}

// quoted reads a quoted string.
func (s *scanner) quoted() string {
	at := s.column()
	text, err := strconv.QuotedPrefix(s.text[s.i:])
	if err != nil {
		s.errorf(at, "got %q, want a text in quotes", s.text[s.i:])
		return ""
	}
	s.i += len(text)
	text, err = strconv.Unquote(text)
	s.fail(at, err)
	return text
}

// typ reads a type such as f32[2,3].
func (s *scanner) typ() ir.Type {
	at := s.column()
	t, err := ir.ParseType(s.word())
	s.fail(at, err)
	return t
}

// types reads types to the end of the line.
func (s *scanner) types() (list []ir.Type) {
	for s.more() {
		list = append(list, s.typ())
	}
	return list
}

// spec reads a Spec such as @[dp,_] and checks it for a tensor of type t on a mesh.
func (s *scanner) spec(m *mesh.Mesh, t ir.Type) mesh.Spec {
	at := s.column()
	return s.parseSpec(at, s.word(), m, t)
}

func (s *scanner) parseSpec(at int, text string, m *mesh.Mesh, t ir.Type) mesh.Spec {
	spec, err := mesh.ParseSpec(text)
	if err == nil && s.err == nil {
		err = spec.Check(m, len(t.Shape))
	}
	s.fail(at, err)
	return spec
}

// buffer reads a buffer of a tape, such as %3; count is the number of buffers.
func (s *scanner) buffer(count int) int {
	at := s.column()
	text, ok := strings.CutPrefix(s.word(), "%")
	if !ok || count == 0 {
		s.errorf(at, "want a buffer such as %%0 that is listed above")
		return 0
	}
	return s.parseNumber(at+1, text, count)
}

// buffers reads all buffers that follow.
func (s *scanner) buffers(count int) (list []int) {
	for s.more() && s.text[s.i] == '%' {
		list = append(list, s.buffer(count))
	}
	return list
}

// ints reads a list such as [2,9].
func (s *scanner) ints() []int {
	at := s.column()
	text := s.word()
	inner, ok := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		s.errorf(at, "got %q, want numbers such as [2,9]", text)
		return nil
	}
	list := []int{}
	for word := range strings.SplitSeq(inner, ",") {
		if inner != "" {
			list = append(list, s.parseNumber(at, word, 1<<40))
		}
	}
	return list
}

// end returns the line's error; more words are one.
func (s *scanner) end() error {
	if s.more() {
		s.errorf(s.i+1, "unexpected %q", s.text[s.i:])
	}
	if s.err == nil {
		return nil
	}
	return s.err
}

// within returns an error in an embedded text, which begins at line and column, with its place in the plan.
func within(line, column int, err error) error {
	if e, ok := errors.AsType[*ir.SyntaxError](err); ok {
		return &SyntaxError{line + e.Line - 1, column + e.Column - 1, e.Err}
	}
	return &SyntaxError{line, column, err}
}
