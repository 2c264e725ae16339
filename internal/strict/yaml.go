package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Error is a mistake in a text, in one line, with its place where that is known.
type Error struct {
	// Line and Column count from 1; 0 is unknown.
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.Message
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// YAML reads one document into a pointer. What is wrong is an *Error. Some texts that are no YAML make the
// library panic (a list that an alias leaves empty); they are mistakes like any other.
func YAML(text []byte, into any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Message: fmt.Sprintf("malformed YAML: %s", firstLine(fmt.Sprint(v)))}
		}
	}()
	if len(text) > maxText {
		return &Error{Message: "it is too long: want a megabyte at most"}
	}
	tokens := lexer.Tokenize(string(text))
	if err := bounded(tokens); err != nil {
		return err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return placed(err)
	}
	for _, d := range file.Docs {
		w := whole{anchors: anchors{}}
		w.check(d.Body, reflect.TypeOf(into))
		if w.err != nil {
			return w.err
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(into); err != nil {
		return placed(err)
	}
	return nil
}

// placed returns an error of the library in one line.
func placed(err error) error {
	type told interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.Is(err, io.EOF) {
		return &Error{Message: "it is empty"}
	}
	e := &Error{Message: firstLine(err.Error())}
	if p, ok := errors.AsType[told](err); ok && p.GetToken() != nil {
		e.Line, e.Column = place(p.GetToken())
		e.Message = firstLine(p.GetMessage())
	}
	return e
}

func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 0, 0
	}
	return t.Position.Line, t.Position.Column
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
