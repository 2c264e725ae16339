package kernel

import (
	"sync"
	"unsafe"
)

// hugePage is the size of a huge page, on systems that have them.
const hugePage = 2 << 20

// Slices of at least leastShared bytes and less than a huge page are parts of a chunk of sharedChunk bytes.
const (
	sharedChunk = 8 * hugePage
	leastShared = 1 << 15
)

// MakeLarge returns a slice for data that is read sequentially again and again, such as weights. It requests
// huge pages from the system, without which a core was measured to read memory at three quarters of the
// speed. It is only a hint; without huge pages it is like make.
func MakeLarge[T float32 | uint16 | int8 | uint8](n int) []T {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	if bytes >= leastShared && bytes < hugePage {
		return unsafe.Slice((*T)(unsafe.Pointer(shared.take(bytes))), n)
	}
	s := make([]T, n)
	if bytes >= hugePage {
		adviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), bytes))
	}
	return s
}

// Populate makes the system allocate the pages of a slice that MakeLarge made, which it otherwise does at the
// first write: on virtual machines that can take milliseconds for each 2 MiB. The slice may be used
// meanwhile.
func Populate[T float32 | uint16 | int8 | uint8](s []T) {
	if bytes := len(s) * int(unsafe.Sizeof(*new(T))); bytes >= hugePage {
		populate(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), bytes))
	}
}

// shared is the chunk that small slices are parts of; it is garbage collected when a new chunk has replaced
// it and none of its slices is left.
var shared chunk

type chunk struct {
	mu   sync.Mutex
	free []byte
}

// take returns the address of n bytes, aligned to a cache line.
func (c *chunk) take(n int) *byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = (n + line - 1) / line * line
	if len(c.free) < n {
		c.free = make([]byte, sharedChunk)
		adviseHuge(c.free)
	}
	s := c.free[:n]
	c.free = c.free[n:]
	return &s[0]
}

// line is the size of a cache line.
const line = 64
