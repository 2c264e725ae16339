package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
)

// readRuns reads a list of rows, or an object that has it under runs, rows or data. A row with a value that
// cannot be parsed is kept with its error; the other rows are not affected.
func readRuns(path string) ([]runRow, error) {
	text, err := strict.ReadFile(path, strict.Data)
	if err != nil {
		return nil, err
	}
	if rows, ok := readFlat(text); ok {
		return rows, nil
	}
	each, err := splitRuns(text)
	if err != nil {
		return nil, runsError(path, text, err)
	}
	rows := make([]runRow, len(each))
	bad, from := 0, 0
	for i, raw := range each {
		from += bytes.Index(text[from:], raw)
		if err := rows[i].read(raw); err != nil {
			rows[i].ID, rows[i].wrong = rawID(raw), err
			if bad++; bad == len(rows) {
				return nil, runsError(path, text, misplaced(raw, from, err))
			}
		}
		from += len(raw)
	}
	return rows, nil
}

// splitRuns returns the text of each row.
func splitRuns(text []byte) (rows []json.RawMessage, err error) {
	if !strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		return rows, json.Unmarshal(text, &rows)
	}
	var file struct{ Runs, Rows, Data []json.RawMessage }
	err = json.Unmarshal(text, &file)
	return slices.Concat(file.Runs, file.Rows, file.Data), err
}

// read parses a row with the names and words that people use.
func (r *runRow) read(raw []byte) error {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return fmt.Errorf("a row that is no object")
	}
	respell(fields)
	plain(fields)
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		if e, ok := err.(*json.UnmarshalTypeError); ok {
			return &wrongType{e}
		}
		return err
	}
	r.unread = unread(fields)
	return nil
}

// wrongType reports which field has a value of a wrong type.
type wrongType struct{ *json.UnmarshalTypeError }

func (e *wrongType) Error() string {
	return fmt.Sprintf("%s: got a %s, want %s", e.Field, e.Value, kindName(e.Type))
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "words"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// misplaced returns a row's error with its approximate position in the file.
func misplaced(raw []byte, from int, err error) error {
	if e, ok := err.(*wrongType); ok {
		at := *e.UnmarshalTypeError
		at.Offset = int64(from)
		var direct *json.UnmarshalTypeError
		if errors.As(json.Unmarshal(raw, &runRow{}), &direct) && direct.Field == e.Field {
			at.Offset += direct.Offset
		}
		return &wrongType{&at}
	}
	return err
}

// rawID returns the name of a row that could not be read.
func rawID(raw []byte) string {
	var r struct {
		ID any `json:"id"`
	}
	json.Unmarshal(raw, &r) // a row without a name is identified by its line
	name, _ := r.ID.(string)
	return name
}

// runsError names the line of a mistake.
func runsError(path string, text []byte, err error) error {
	offset := int64(-1)
	switch e := err.(type) {
	case *json.SyntaxError:
		offset = e.Offset
	case *json.UnmarshalTypeError:
		offset = e.Offset
	case *wrongType:
		offset = e.Offset
	}
	if offset < 0 || offset > int64(len(text)) {
		return fmt.Errorf("%s: %w", path, err)
	}
	before := string(text[:offset])
	line := strings.Count(before, "\n") + 1
	return fmt.Errorf("%s:%d:%d: %w", path, line, int(offset)-strings.LastIndex(before, "\n")-1, err)
}
