package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// unit is a part of a stream's files that can be read by itself: some bytes of a plain file, or all of a file
// that is compressed or in a format, which can only be read from its beginning.
type unit struct {
	path     string
	from, to int64 // the whole file if to is 0
}

// unitsOf cuts files into units of about block bytes. It looks only at their sizes.
func unitsOf(paths []string, block int64, formats map[string]Format) ([]unit, error) {
	files, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	var list []unit
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		if ext := filepath.Ext(path); ext == ".gz" || ext == ".zst" || ext == ".parquet" || formats[ext] != nil {
			list = append(list, unit{path: path})
			continue
		}
		for at := int64(0); at < info.Size(); at += block {
			list = append(list, unit{path, at, min(at+block, info.Size())})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("data: %q: the files are empty", paths)
	}
	return list, nil
}

// blocks yields the texts of a unit, about block bytes at a time; the first error ends it.
func (u unit) blocks(block int64, config DocumentsConfig) iter.Seq2[[]string, error] {
	documents := Documents([]string{u.path}, config)
	if u.to > 0 {
		documents, block = u.part(config), u.to
	}
	return func(yield func([]string, error) bool) {
		var texts []string
		size := int64(0)
		for d, err := range documents {
			if err != nil {
				yield(nil, err)
				return
			}
			texts = append(texts, d.Text)
			if size += int64(len(d.Text)); size < block {
				continue
			}
			if !yield(texts, nil) {
				return
			}
			texts, size = nil, 0
		}
		if len(texts) > 0 {
			yield(texts, nil)
		}
	}
}

// part yields the documents of a plain file whose lines begin within the unit; if the file is one document,
// these lines are one.
func (u unit) part(config DocumentsConfig) iter.Seq2[Document, error] {
	if config.Field == "" {
		config.Field = "text"
	}
	return func(yield func(Document, error) bool) {
		text, err := u.lines()
		if err != nil {
			yield(Document{}, fmt.Errorf("data: %s: %w", u.path, err))
			return
		}
		if !slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(u.path)) {
			switch {
			case !utf8.Valid(text):
				yield(Document{}, fmt.Errorf("data: %s: it is not UTF-8 text", u.path))
			case len(text) > 0:
				yield(Document{Text: string(text), Place: u.path}, nil)
			}
			return
		}
		at := u.from
		for line := range bytes.Lines(text) {
			place := fmt.Sprintf("%s at byte %d", u.path, at)
			at += int64(len(line))
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			text, err := textOf(line, config.Field)
			if !yieldLine(text, err, place, config, yield) {
				return
			}
		}
	}
}

// lines returns the lines that begin within the unit, of which the last may end after it. It sets from to the
// beginning of the first line.
func (u *unit) lines() ([]byte, error) {
	f, err := os.Open(u.path)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "open "+u.path+": "))
	}
	defer f.Close()
	start := max(0, u.from-1) // the byte before shows whether a line begins at from
	r := bufio.NewReader(io.NewSectionReader(f, start, 1<<62-start))
	at := start
	if u.from > 0 {
		n, err := skipLine(r)
		if at += n; err != nil || at >= u.to {
			u.from = at
			return nil, notEOF(err)
		}
	}
	u.from = at
	text := make([]byte, u.to-at)
	n, err := io.ReadFull(r, text)
	if text = text[:n]; err != nil {
		return text, notEOF(err)
	}
	if text[n-1] != '\n' {
		rest, err := r.ReadBytes('\n')
		return append(text, rest...), notEOF(err)
	}
	return text, nil
}

// skipLine reads to the end of a line and returns its length.
func skipLine(r *bufio.Reader) (n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
