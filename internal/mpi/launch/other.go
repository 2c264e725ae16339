//go:build !(linux || darwin)

package launch

import (
	"fmt"
	"io"
	"runtime"
)

// Config says what to start.
type Config struct {
	N              int
	Args           []string
	Stdout, Stderr io.Writer
}

// Run says that there is no launcher here.
func Run(Config) (code int, err error) {
	return 1, fmt.Errorf("launch: not on %s: want linux or darwin", runtime.GOOS)
}
