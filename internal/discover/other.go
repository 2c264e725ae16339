//go:build !((linux || darwin) && (amd64 || arm64))

package discover

import (
	"fmt"
	"runtime"
)

// gpus says that there is no NVML here.
func gpus() ([]GPU, error) { return nil, fmt.Errorf("no NVML on %s/%s", runtime.GOOS, runtime.GOARCH) }
