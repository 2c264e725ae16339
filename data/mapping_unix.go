//go:build unix

package data

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a memory-mapped file.
type mapping struct{ bytes []byte }

func openMapping(path string) (mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return mapping{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return mapping{}, err // an empty file cannot be mapped
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	return mapping{b}, err
}

func (m mapping) close() error {
	if m.bytes == nil {
		return nil
	}
	return unix.Munmap(m.bytes)
}
