package jit

import (
	"errors"
	"os"
	"sync"

	"github.com/galley-ml/galley/internal/kernel"
)

// ErrOff is the error of Best if GALLEY_JIT is off.
var ErrOff = errors.New("GALLEY_JIT is off")

// Best returns the instruction set to compile for: that of the kernels, so that results have the same bits.
// The error explains why none can be used.
func Best() (Set, error) {
	if os.Getenv("GALLEY_JIT") == "off" {
		return 0, ErrOff
	}
	return best()
}

var best = sync.OnceValues(func() (Set, error) {
	set := AVX512
	switch kernel.VectorSet() {
	case "AVX512":
	case "AVX2":
		set = AVX2
	default:
		return 0, errors.New("the kernels have no vectors here")
	}
	_, err := newMemoryProbe()
	return set, err
})

// newMemoryProbe checks whether memory can be made executable.
func newMemoryProbe() ([]byte, error) {
	m, err := newMemory([]byte{0xC3})
	if err == nil {
		freeMemory(m)
	}
	return nil, err
}
