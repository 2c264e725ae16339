//go:build !cgo || !linux

package xla

import (
	"errors"

	"github.com/galley-ml/galley/backend"
)

// Open returns an error: loading a plugin needs C.
func Open(Config) (backend.Backend, error) {
	return nil, errors.New(
		"xla: this binary was built without cgo: build it on Linux with CGO_ENABLED=1 and a C compiler",
	)
}
