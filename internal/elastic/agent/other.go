//go:build !(linux || darwin)

package agent

import (
	"context"
	"fmt"
	"runtime"
)

// Run returns an error, because this system does not support agents.
func Run(context.Context, Config) (code int, err error) {
	return 2, fmt.Errorf("elastic: not on %s: want linux or darwin", runtime.GOOS)
}
