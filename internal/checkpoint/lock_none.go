//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package checkpoint

import (
	"os"
	"path/filepath"
)

// lock does nothing on this system; the caller must ensure that two keepers never share a directory.
func lock(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
}
