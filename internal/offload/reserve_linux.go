package offload

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes the room for n bytes of zeros, so that a write cannot find the disk full.
func reserve(f *os.File, n int64) error {
	if n == 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(n) // the room is then taken as it is written
		}
		return err
	}
}
