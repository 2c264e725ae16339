package strict

import (
	"fmt"
	"io"
	"os"
)

// Sizes that files of a kind may have.
const (
	// what people or other programs write by hand or nearly so: configurations, plans, clusters
	Config    = 16 << 20
	Tokenizer = 256 << 20 // vocabularies
	Data      = 1 << 30   // records of other frameworks
)

// ReadFile reads a regular file of limited size. A pipe or a device might never end, or never begin.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: got %s, want a regular file", Name(path), kind(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: it has more than %d bytes, the most that such a file may have", Name(path), limit)
	}
	return text, err
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeDevice != 0:
		return "a device"
	case m&os.ModeSocket != 0:
		return "a socket"
	}
	return "no file"
}
