//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const lockName = ".lock"

// lock locks a directory for one Keeper. The system releases it when the process ends, in any way.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		text, _ := os.ReadFile(path)
		f.Close()
		return nil, fmt.Errorf("%s: another keeper writes to it%s: close it first, or choose another directory",
			dir, strings.TrimRight(string(text), "\n"))
	}
	// Some network file systems have no locks: the names of temporaries still do not clash.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, " (process %d)\n", os.Getpid())
	}
	return f, nil
}
