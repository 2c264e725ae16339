package kernel

import "unsafe"

// hugePage is what a page of memory is where the system gives large ones, and the least that asks for them.
const hugePage = 2 << 20

// MakeLarge returns a slice that is read from one end to the other again and again, as weights are: the
// system is asked for huge pages, without which a core here reads memory at three quarters of its speed. It
// is a hint; a system without them gives what make gives.
func MakeLarge[T float32 | uint16 | int8 | uint8](n int) []T {
	s := make([]T, n)
	if bytes := n * int(unsafe.Sizeof(*new(T))); bytes >= hugePage {
		adviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), bytes))
	}
	return s
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
