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

// Call is one run: some blocks of rows.
type Call struct {
	// Rows is how many a block has, and Blocks how many of them there are, at least one each.
	Rows, Blocks int
	// Base is where each stream's first row begins, Stride how far apart rows of a block are, and Block how far
	// apart blocks are, in bytes.
	Base          []unsafe.Pointer
	Stride, Block []int
	// Scratch is memory of the run's own.
	Scratch []byte
}

// Run computes the rows. What the pointers point to must stay alive until it returns.
func (c *Code) Run(r *Call) {
	if min(r.Rows, r.Blocks) < 1 || len(r.Base) != c.streams || len(r.Stride) != c.streams ||
		len(r.Block) != c.streams || len(r.Scratch) < c.scratch {
		panic(fmt.Sprintf("jit: run of %d blocks of %d rows with %d streams and %d bytes: want %d and %d", r.Blocks,
			r.Rows, len(r.Base), len(r.Scratch), c.streams, c.scratch))
	}
	var few [argStreams + argStream*16]uintptr
	args := few[:]
	if n := argStreams + argStream*c.streams; n > len(few) {
		args = make([]uintptr, n)
	}
	args[argRows], args[argBlocks] = uintptr(r.Rows), uintptr(r.Blocks)
	args[argScratch] = uintptr(unsafe.Pointer(unsafe.SliceData(r.Scratch)))
	for i, p := range r.Base {
		k := argStreams + argStream*i
		args[k], args[k+1], args[k+2] = uintptr(p), uintptr(r.Stride[i]), uintptr(r.Block[i]-r.Rows*r.Stride[i])
	}
	call(uintptr(unsafe.Pointer(&c.memory[0])), &args[0])
	runtime.KeepAlive(r.Scratch)
	runtime.KeepAlive(r.Base)
	runtime.KeepAlive(c)
}
