package jit

import (
	"errors"
	"os"
	"sync"

	"github.com/galley-ml/galley/internal/kernel"
)

// ErrOff is why nothing is compiled where GALLEY_JIT is off.
var ErrOff = errors.New("GALLEY_JIT is off")

// Best returns the instruction set that code is made for: that of the kernels, so that it gives their bits.
// The error says why there is none.
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

// newMemoryProbe tries whether memory can be made executable.
func newMemoryProbe() ([]byte, error) {
	m, err := newMemory([]byte{0xC3})
	if err == nil {
		freeMemory(m)
	}
	return nil, err
}
