package data

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// Document is one text of a corpus.
type Document struct {
	// Text is the content of the document.
	Text string
	// Place is the file that it came from and, if the file has many documents, the line.
	Place string
}

// DocumentsConfig configures how files are read.
type DocumentsConfig struct {
	// Field is the field of a JSON line, or the column of a Parquet file, that holds a text; "" means "text".
	Field string
	// Skip, if set, is called with the error of a line or row that cannot be read, which is then left out.
	// Without it such an error ends reading.
	Skip func(error)
	// Formats are further file formats with many documents, by the extension of their names.
	Formats map[string]Format
}

// Format reads a file of many texts: it calls row with the text of each row, or with the row's error, until
// row returns false. It returns an error of the whole file.
type Format func(f *os.File, field string, row func(text string, err error) bool) error

// longestLine bounds a JSON line: a file without line ends would otherwise be read into memory whole.
const longestLine = 1 << 30

// Documents returns the documents of files and, in the order of their names, of the files below directories.
// A .jsonl or .ndjson file has a document per line, one of Formats a document per row; any other file is one
// document. Files that end in .gz or .zst are decompressed. The first error ends the sequence.
func Documents(paths []string, config DocumentsConfig) iter.Seq2[Document, error] {
	if config.Field == "" {
		config.Field = "text"
	}
	return func(yield func(Document, error) bool) {
		files, err := filesOf(paths)
		if err != nil {
			yield(Document{}, err)
			return
		}
		for _, path := range files {
			if !readFile(path, config, yield) {
				return
			}
		}
	}
}

// filesOf returns the regular files of paths, those of a directory sorted by name, without hidden ones.
func filesOf(paths []string) (files []string, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name != path && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if !d.IsDir() {
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("data: %s: it is no regular file", f)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("data: no files in %q", paths)
	}
	return files, nil
}

// readFile yields the documents of a file, and reports whether the caller wants more.
func readFile(path string, config DocumentsConfig, yield func(Document, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		yield(Document{}, fmt.Errorf("data: %w", err))
		return false
	}
	defer f.Close()
	if format := config.Formats[filepath.Ext(path)]; format != nil {
		return readRows(f, format, config, yield)
	}
	if filepath.Ext(path) == ".parquet" {
		yield(Document{}, fmt.Errorf("data: %s: no reader for it: set Formats[%q] to that of package data/parquet",
			path,
			".parquet"))
		return false
	}
	r, name, err := unpack(f, path)
	if err != nil {
		yield(Document{}, fmt.Errorf("data: %s: %w", path, err))
		return false
	}
	defer r.Close()
	if slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(name)) {
		return readLines(r, path, config, yield)
	}
	text, err := io.ReadAll(r)
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is not UTF-8 text")
	}
	if err != nil {
		yield(Document{}, fmt.Errorf("data: %s: %w", path, err))
		return false
	}
	return yield(Document{Text: string(text), Place: path}, nil)
}

// unpack returns a reader of the decompressed file, and its name without the compression's extension.
func unpack(f io.Reader, path string) (io.ReadCloser, string, error) {
	switch filepath.Ext(path) {
	case ".gz":
		r, err := gzip.NewReader(f)
		return r, strings.TrimSuffix(path, ".gz"), err
	case ".zst":
		r, err := zstd.NewReader(f)
		if err != nil {
			return nil, "", err
		}
		return r.IOReadCloser(), strings.TrimSuffix(path, ".zst"), nil
	}
	return io.NopCloser(f), path, nil
}

// readRows yields the documents of a file in a format, and reports whether the caller wants more.
func readRows(f *os.File, format Format, config DocumentsConfig, yield func(Document, error) bool) bool {
	n, more := 0, true
	err := format(f, config.Field, func(text string, err error) bool {
		n++
		more = yieldLine(text, err, fmt.Sprintf("%s:%d", f.Name(), n), config, yield)
		return more
	})
	if err != nil {
		yield(Document{}, fmt.Errorf("data: %s: %w", f.Name(), err))
		return false
	}
	return more
}

// yieldLine yields the document of a line or row; one with an error is skipped or ends the sequence.
func yieldLine(text string, err error, place string, config DocumentsConfig,
	yield func(Document, error) bool) bool {
	if err == nil {
		return yield(Document{Text: text, Place: place}, nil)
	}
	err = fmt.Errorf("data: %s: %w", place, err)
	if config.Skip == nil {
		yield(Document{Place: place}, err)
		return false
	}
	config.Skip(err)
	return true
}

func readLines(r io.Reader, path string, config DocumentsConfig, yield func(Document, error) bool) bool {
	return eachLine(r, path, func(l Line, err error) bool {
		if err != nil {
			yield(Document{}, err)
			return false
		}
		text, err := textOf(l.JSON, config.Field)
		return yieldLine(text, err, l.Place, config, yield)
	})
}

// textOf returns the text field of a JSON line.
func textOf(line []byte, field string) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", err
	}
	raw, ok := fields[field]
	if !ok {
		return "", fmt.Errorf("it has no field %q", field)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("field %q: %w", field, err)
	}
	return text, nil
}
