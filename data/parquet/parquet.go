// Package parquet reads texts from Parquet files. It is a package of its own so that only those programs
// carry the library that ask for it:
//
//	config.Formats = map[string]data.Format{".parquet": parquet.Read}
package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// Read hands on the text of each row of a file, that of one column, until one is not wanted. A row without a
// text is handed on as an error. It is a data.Format.
func Read(f *os.File, column string, row func(text string, err error) bool) (err error) {
	outside := true // the library's code is running, not row
	defer func() {  // it panics on some damaged files
		if outside {
			if r := recover(); r != nil {
				err = fmt.Errorf("parquet: it is damaged: %v", r)
			}
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	at, err := textColumn(file.Schema(), column)
	if err != nil {
		return err
	}
	r := reader{row: func(v parquet.Value) bool {
		text, err := "", error(nil)
		if v.IsNull() {
			err = fmt.Errorf("column %q is null", column)
		} else {
			text = string(v.ByteArray())
		}
		outside = false
		more := row(text, err)
		outside = true // not where row panics
		return more
	}}
	for _, group := range file.RowGroups() {
		if more, err := r.column(group.ColumnChunks()[at]); err != nil || !more {
			return err
		}
	}
	return nil
}

// textColumn returns the number of a column of texts.
func textColumn(s *parquet.Schema, name string) (int, error) {
	leaf, ok := s.Lookup(name)
	switch {
	case !ok:
		return 0, fmt.Errorf("parquet: no column %q: it has %v", name, columnNames(s))
	case leaf.Node.Type().Kind() != parquet.ByteArray:
		return 0, fmt.Errorf("parquet: column %q is of %v: want texts", name, leaf.Node.Type())
	case leaf.MaxRepetitionLevel > 0:
		return 0, fmt.Errorf("parquet: column %q has lists: want a text a row", name)
	}
	return leaf.ColumnIndex, nil
}

func columnNames(s *parquet.Schema) (names []string) {
	for _, f := range s.Fields() {
		names = append(names, f.Name())
	}
	return names
}

// reader hands on values until one is not wanted.
type reader struct {
	row    func(v parquet.Value) bool
	buffer [256]parquet.Value
}

func (r *reader) column(c parquet.ColumnChunk) (more bool, err error) {
	pages := c.Pages()
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("parquet: %w", err)
		}
		more, err := r.page(page)
		parquet.Release(page)
		if err != nil || !more {
			return false, err
		}
	}
}

func (r *reader) page(page parquet.Page) (more bool, err error) {
	values := page.Values()
	for {
		n, err := values.ReadValues(r.buffer[:])
		for _, v := range r.buffer[:n] {
			if !r.row(v) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("parquet: %w", err)
		}
	}
}
