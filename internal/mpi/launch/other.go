//go:build !(linux || darwin)

package launch

import (
	"fmt"
	"io"
	"runtime"
)

// Config describes the processes to start.
type Config struct {
	N              int
	Args           []string
	Stdout, Stderr io.Writer
}

// Run returns an error: there is no launcher for this system.
func Run(Config) (code int, err error) {
	return 1, fmt.Errorf("launch: not on %s: want linux or darwin", runtime.GOOS)
}
