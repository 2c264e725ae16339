package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/galley-ml/galley/internal/strict"
)

// readTexts returns the contents of files, one after the other.
func readTexts(paths []string) (string, error) {
	var all strings.Builder
	for _, path := range paths {
		text, err := readText(path)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

// readText reads a file or a pipe. Compressed or binary files are refused: a model cannot learn from their
// bytes. Text that is not UTF-8 is read as it is, with a note.
func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if info.Mode()&os.ModeDevice != 0 {
		return nil, fmt.Errorf("--data=%s: got a device, want a file of text", strict.Name(path))
	}
	if err := fits("--data="+strict.Name(path), float64(info.Size())); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if kind := packed(text); kind != "" {
		return nil, fmt.Errorf("--data=%s: it is %s, want text: unpack it first", strict.Name(path), kind)
	}
	if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		fmt.Fprintf(os.Stderr, "galley: note: %s is not UTF-8 text: its bytes are trained on as they are\n",
			strict.Name(path))
	}
	return text, nil
}

// packed returns the kind of an archive, picture or table by its first bytes; empty for any other
// file.
func packed(text []byte) string {
	for _, k := range []struct{ magic, kind string }{
		{"\x1f\x8b", "a gzip file"}, {"PK\x03\x04", "a zip file"}, {"\x28\xb5\x2f\xfd", "a zstd file"}, {"BZh",
			"a bzip2 file"},
		{"\xfd7zXZ\x00", "an xz file"}, {"PAR1", "a parquet file"}, {"ARROW1", "an Arrow file"}, {"\x89PNG",
			"a PNG picture"},
		{"%PDF-", "a PDF file"}, {"\x7fELF", "a program"},
	} {
		if bytes.HasPrefix(text, []byte(k.magic)) {
			return k.kind
		}
	}
	return ""
}
