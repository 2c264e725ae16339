package kernel

import (
	"sync"
	"unsafe"
)

// hugePage is what a page of memory is where the system gives large ones.
const hugePage = 2 << 20

// Slices of at least leastShared bytes that are less than a huge page are cut from sharedChunk bytes of them.
const (
	sharedChunk = 8 * hugePage
	leastShared = 1 << 15
)

// MakeLarge returns a slice that is read from one end to the other again and again, as weights are: the
// system is asked for huge pages, without which a core here reads memory at three quarters of its speed. It
// is a hint; a system without them gives what make gives.
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

// shared is the chunk that small slices come from; it is collected when none of them is left and another took
// its place.
var shared chunk

type chunk struct {
	mu   sync.Mutex
	free []byte
}

// take returns the first of n bytes, at the begin of a line.
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

// line is what a processor reads from memory at a time.
const line = 64

// Fetch tells the processor that s is read soon. It fetches by itself what follows what was read; this is for
// what is elsewhere.
func Fetch[T float32 | uint16 | int8](s []T) {
	if n := len(s) * int(unsafe.Sizeof(*new(T))) / line; n > 0 {
		fetchLines(n, (*byte)(unsafe.Pointer(&s[0])))
	}
}
