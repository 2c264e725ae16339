package jit

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Code is a program that runs. Its memory is given back when nothing holds the Code any more.
type Code struct {
	memory  []byte
	scratch int
	streams int
	size    int
}

// Compile makes code of a program. It fails where the set has no instructions for it, or where memory cannot
// be made executable.
func Compile(p *Program, set Set) (*Code, error) {
	text, scratch, err := compile(p, set)
	if err != nil {
		return nil, err
	}
	m, err := newMemory(text)
	if err != nil {
		return nil, err
	}
	c := &Code{memory: m, scratch: scratch, streams: p.Streams, size: len(text)}
	runtime.AddCleanup(c, freeMemory, m)
	return c, nil
}

// Size returns the code's bytes.
func (c *Code) Size() int { return c.size }

// Scratch returns how much memory a run needs besides its streams, in bytes.
func (c *Code) Scratch() int { return c.scratch }

// Call is one run: some rows.
type Call struct {
	// Rows is how many, at least one.
	Rows int
	// Base is where each stream's first row begins, and Stride how far apart rows are, in bytes.
	Base   []unsafe.Pointer
	Stride []int
	// Scratch is memory of the run's own.
	Scratch []byte
}

// Run computes the rows. What the pointers point to must stay alive until it returns.
func (c *Code) Run(r *Call) {
	if r.Rows < 1 || len(r.Base) != c.streams || len(r.Stride) != c.streams || len(r.Scratch) < c.scratch {
		panic(fmt.Sprintf("jit: run of %d rows with %d streams and %d bytes: want %d and %d", r.Rows, len(r.Base),
			len(r.Scratch), c.streams, c.scratch))
	}
	var few [argStreams + 2*24]uintptr
	args := few[:]
	if n := argStreams + 2*c.streams; n > len(few) {
		args = make([]uintptr, n)
	}
	args[argRows] = uintptr(r.Rows)
	args[argScratch] = uintptr(unsafe.Pointer(unsafe.SliceData(r.Scratch)))
	for i, p := range r.Base {
		args[argStreams+2*i], args[argStreams+2*i+1] = uintptr(p), uintptr(r.Stride[i])
	}
	call(uintptr(unsafe.Pointer(&c.memory[0])), &args[0])
	runtime.KeepAlive(r.Scratch)
	runtime.KeepAlive(r.Base)
	runtime.KeepAlive(c)
}
