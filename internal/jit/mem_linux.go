//go:build linux && amd64 && !noasm

package jit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// newMemory copies code to memory that can be read and executed, but not written.
func newMemory(code []byte) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, len(code), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory for code: %w", err)
	}
	copy(m, code)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.Munmap(m) //nolint:errcheck // the first error is the one to tell
		return nil, fmt.Errorf("memory cannot be made executable: %w", err)
	}
	return m, nil
}

func freeMemory(m []byte) { unix.Munmap(m) } //nolint:errcheck // nothing is left to do
