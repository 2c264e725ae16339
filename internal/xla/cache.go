package xla

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// cache is a directory of compiled programs. Damaged files are ignored, and so are errors in
// writing.
type cache struct {
	dir string
	// maker identifies all that the result of compilation depends on: plugin, device, flags.
	maker string
}

// cacheMark is at the beginning of every file, to recognize its kind and version.
const cacheMark = "galley compiled program 1\n"

// newCache creates the directory; an empty dir means no cache.
func newCache(dir, maker string) (*cache, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("xla: cache: %w", err)
	}
	return &cache{dir, maker}, nil
}

// path returns the file of a key.
func (c *cache) path(key [sha256.Size]byte) string {
	whole := sha256.Sum256(append(key[:], c.maker...))
	return filepath.Join(c.dir, hex.EncodeToString(whole[:16]))
}

// get returns the program of a key if its file is complete; nil otherwise.
func (c *cache) get(key [sha256.Size]byte) []byte {
	if c == nil {
		return nil
	}
	file, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil
	}
	rest, ok := bytes.CutPrefix(file, []byte(cacheMark))
	if !ok || len(rest) < sha256.Size {
		return nil
	}
	sum, data := rest[:sha256.Size], rest[sha256.Size:]
	if sha256.Sum256(data) != [sha256.Size]byte(sum) {
		return nil
	}
	return data
}

// put stores a program under a key, atomically for concurrent readers.
func (c *cache) put(key [sha256.Size]byte, data []byte) {
	if c == nil || len(data) == 0 {
		return
	}
	f, err := os.CreateTemp(c.dir, ".new-*")
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	_, err = f.Write(bytes.Join([][]byte{[]byte(cacheMark), sum[:], data}, nil))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path(key))
	}
	if err != nil {
		os.Remove(f.Name())
	}
}
