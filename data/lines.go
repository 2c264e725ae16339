package data

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
)

// Line is a line of a JSON Lines file.
type Line struct {
	// JSON is the content of the line; it is valid until the next line.
	JSON []byte
	// Place is the file and line number.
	Place string
}

// Lines returns the lines of JSON Lines files, and of those below directories, that are not empty. Files that
// end in .gz or .zst are decompressed. The first error ends the sequence.
func Lines(paths []string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		files, err := filesOf(paths)
		if err != nil {
			yield(Line{}, err)
			return
		}
		for _, path := range files {
			if !fileLines(path, yield) {
				return
			}
		}
	}
}

// fileLines yields the lines of a file, and reports whether the caller wants more.
func fileLines(path string, yield func(Line, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		yield(Line{}, fmt.Errorf("data: %w", err))
		return false
	}
	defer f.Close()
	r, _, err := unpack(f, path)
	if err != nil {
		yield(Line{}, fmt.Errorf("data: %s: %w", path, err))
		return false
	}
	defer r.Close()
	return eachLine(r, path, yield)
}

func eachLine(r io.Reader, path string, yield func(Line, error) bool) bool {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if !yield(Line{lines.Bytes(), fmt.Sprintf("%s:%d", path, n)}, nil) {
			return false
		}
	}
	if err := lines.Err(); err != nil {
		yield(Line{}, fmt.Errorf("data: %s: %w", path, err))
		return false
	}
	return true
}
