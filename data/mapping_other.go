//go:build !unix

package data

import "os"

// mapping is a file read into memory, on systems without mmap.
type mapping struct{ bytes []byte }

func openMapping(path string) (mapping, error) {
	b, err := os.ReadFile(path)
	return mapping{b}, err
}

func (mapping) close() error { return nil }
