//go:build !((linux || darwin) && (amd64 || arm64))

package mpi

import (
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/internal/comm"
)

// LibraryVariable names the library's file.
const LibraryVariable = "GALLEY_MPI_LIBRARY"

// Engine is the transport of an MPI job, which is not supported on this system.
type Engine struct{ comm.Transport }

// Open returns an error: MPI is not supported on this system.
func Open(Job) (*Engine, error) {
	return nil, fmt.Errorf("mpi: not on %s/%s: want linux or darwin, amd64 or arm64", runtime.GOOS,
		runtime.GOARCH)
}

// Library returns an error: MPI is not supported on this system.
func Library(Family) (string, error) {
	_, err := Open(Job{})
	return "", err
}

// Version returns the library's version text.
func (e *Engine) Version() string { return "" }

// Abort ends all processes of the job.
func (e *Engine) Abort(int) {}
