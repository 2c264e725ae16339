//go:build linux || darwin

package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// mapped is a file in this process's memory.
type mapped struct{ bytes []byte }

// createMapped creates a file and maps it. It allocates all of its space, so that a full file system fails
// here.
func createMapped(path string, write func(*os.File) error) (m *mapped, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return nil, fmt.Errorf("memory for snapshots: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(
		int(f.Fd()),
		0,
		int(info.Size()),
		syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED,
	)
	if err != nil {
		return nil, fmt.Errorf("%s: mmap: %w", path, err)
	}
	return &mapped{b}, nil
}

func (m *mapped) reader() io.ReaderAt { return bytes.NewReader(m.bytes) }

func (m *mapped) close() { _ = syscall.Munmap(m.bytes) }
